"""Credit, prefetch and settling, against a broker that a test scripts. In memory."""

import uuid

import pytest

from bendybus.amqp.frames import encode_frame
from bendybus.amqp.outcomes import Accepted, AmqpError, Modified, Rejected
from bendybus.amqp.performatives import Disposition
from bendybus.amqp.values import AmqpArray, Symbol
from bendybus.client.errors import (
    EntityNotFound,
    MessageLockLost,
    MessageNotLocked,
    PartlyFailed,
)
from bendybus.client.message import Message, ReceivedMessage
from bendybus.client.receiving import Receiving
from bendybus.client.settlement import COMPLETE, Settlement, abandon, dead_letter, defer
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import ScriptedBroker

LATER = 30.0


def receiving_from(
    shell: MemoryShell, *, prefetch: int = 0, is_deleting: bool = False
) -> Receiving:
    return Receiving(shell.connector, "orders", is_deleting=is_deleting, prefetch=prefetch)


def stocked(count: int) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.to_deliver.extend(Message(b"%d" % number).encode() for number in range(count))
    return broker


@pytest.mark.amqp("2.6.7")
def test_without_prefetch_a_receive_takes_its_credit_back() -> None:
    shell = MemoryShell(broker := stocked(2))
    received = shell.run(receiving_from(shell).receive(5, LATER, LATER))
    assert [message.body for message in received] == [b"0", b"1"]
    assert broker.links["from orders"].credit == 0
    assert shell.time == 0


def test_a_receive_never_asks_for_more_than_it_returns() -> None:
    shell = MemoryShell(broker := stocked(5))
    receiving = receiving_from(shell)
    assert len(shell.run(receiving.receive(3, LATER, LATER))) == 3
    assert len(broker.to_deliver) == 2


def test_an_empty_receive_comes_back_when_its_time_is_up() -> None:
    shell = MemoryShell(stocked(0))
    assert shell.run(receiving_from(shell).receive(5, 7.0, LATER)) == []
    assert shell.time == 7.0


@pytest.mark.parametrize("prefetch", [0, 10])
def test_a_receive_without_waiting_still_brings_what_is_there(prefetch: int) -> None:
    shell = MemoryShell(stocked(1))
    received = shell.run(receiving_from(shell, prefetch=prefetch).receive(5, 0.0, LATER))
    assert [message.body for message in received] == [b"0"]


def test_prefetch_keeps_so_many_at_hand_and_no_more() -> None:
    shell = MemoryShell(broker := stocked(100))
    receiving = receiving_from(shell, prefetch=10)
    taken = 0
    for _ in range(5):
        taken += len(shell.run(receiving.receive(3, LATER, LATER)))
        assert 100 - len(broker.to_deliver) <= taken + 10
    assert taken == 15


def test_receive_and_delete_asks_for_settled_deliveries_that_cannot_be_settled_again() -> None:
    shell = MemoryShell(broker := stocked(1))
    receiving = receiving_from(shell, is_deleting=True)
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    attach = broker.links["from orders"].peer_attach
    assert attach is not None
    assert (attach.snd_settle_mode, attach.rcv_settle_mode) == (1, 0)
    with pytest.raises(MessageNotLocked):
        shell.run(receiving.settle([message], COMPLETE, LATER))
    with pytest.raises(MessageNotLocked):
        shell.run(receiving.renew_lock(message, LATER))


@pytest.mark.amqp("2.6.12", "3.4")
@pytest.mark.parametrize(
    ("settlement", "state"),
    [
        (COMPLETE, Accepted()),
        (abandon(None), Modified(True, False, None)),
        (abandon({"tries": 1}), Modified(True, False, {Symbol("tries"): 1})),
        (defer(None), Modified(True, True, None)),
        (
            dead_letter("late", "too late", {"a": True}),
            Rejected(
                AmqpError(
                    "com.microsoft:dead-letter",
                    None,
                    {
                        Symbol("a"): True,
                        Symbol("DeadLetterReason"): "late",
                        Symbol("DeadLetterErrorDescription"): "too late",
                    },
                )
            ),
        ),
    ],
)
def test_each_outcome_has_its_state_and_waits_for_the_confirmation(
    settlement: Settlement, state: object
) -> None:
    shell = MemoryShell(broker := stocked(2))
    receiving = receiving_from(shell)
    messages = shell.run(receiving.receive(2, LATER, LATER))
    shell.run(receiving.settle(messages, settlement, LATER))
    tokens = [message.lock_token for message in messages]
    assert broker.settlements == [(tokens, state, False)]


@pytest.mark.amqp("2.7.6")
def test_a_settlement_is_confirmed_by_nothing_less_than_a_settled_disposition() -> None:
    shell = MemoryShell(stocked(1))
    receiving = receiving_from(shell)
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    connection = shell.connector.connection
    assert connection is not None
    step = receiving.settle([message], COMPLETE, LATER)
    next(step)
    for is_settled in (False, True):
        disposition = Disposition(
            role=False, first=message.delivery_id, settled=is_settled, state=Accepted()
        )
        connection.receive_data(encode_frame(0, disposition))
        if not is_settled:
            step.send(0.0)
    with pytest.raises(StopIteration):
        step.send(0.0)


def test_after_a_loss_a_message_is_settled_by_its_token() -> None:
    shell = MemoryShell(stocked(1), second := ScriptedBroker())
    second.operations["update-disposition"] = lambda _: (200, None)
    receiving = receiving_from(shell)
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    shell.cut()
    shell.run(receiving.settle([message], dead_letter("late", None, {"a": 1}), LATER))
    assert second.requests == [
        (
            "update-disposition",
            {
                "disposition-status": "suspended",
                "lock-tokens": AmqpArray(uuid.UUID, (message.lock_token,)),
                "deadletter-reason": "late",
                "properties-to-modify": {"a": 1},
            },
        )
    ]


def test_settling_twice_asks_the_broker_by_token_and_it_judges() -> None:
    shell = MemoryShell(broker := stocked(1))
    lost = Symbol("com.microsoft:message-lock-lost")
    broker.operations["update-disposition"] = lambda _: (410, lost)
    receiving = receiving_from(shell)
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    shell.run(receiving.settle([message], COMPLETE, LATER))
    with pytest.raises(MessageLockLost):
        shell.run(receiving.settle([message], COMPLETE, LATER))


def test_one_message_twice_in_a_call_does_not_hang() -> None:
    shell = MemoryShell(broker := stocked(1))
    lost = Symbol("com.microsoft:message-lock-lost")
    broker.operations["update-disposition"] = lambda _: (410, lost)
    receiving = receiving_from(shell)
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    with pytest.raises(PartlyFailed) as failure:
        shell.run(receiving.settle([message, message], COMPLETE, LATER))
    assert failure.value.done == [0]
    assert isinstance(failure.value.refused[1], MessageLockLost)


def test_messages_fetched_before_a_loss_are_still_handed_out() -> None:
    shell = MemoryShell(stocked(3), ScriptedBroker())
    receiving = receiving_from(shell, prefetch=10)
    first = shell.run(receiving.receive(1, LATER, LATER))
    shell.cut()
    rest = shell.run(receiving.receive(5, LATER, LATER))
    assert [message.body for message in first + rest] == [b"0", b"1", b"2"]


def test_a_receive_that_waits_gets_over_a_loss() -> None:
    shell = MemoryShell(first := ScriptedBroker(), stocked(1))
    shell.cut_when = lambda: bool(
        first.links.get("from orders") and first.links["from orders"].credit
    )
    [message] = shell.run(receiving_from(shell).receive(1, 3600, LATER))
    assert message.body == b"0"


def test_a_queue_that_is_gone_ends_a_waiting_receive() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    receiving = receiving_from(shell)
    shell.run(receiving.attached(LATER))
    broker.links["from orders"].detach(AmqpError("amqp:not-found", "It was deleted.", {}))
    broker.refusals["from orders"] = AmqpError("amqp:not-found", "It was deleted.", {})
    with pytest.raises(EntityNotFound, match="It was deleted"):
        shell.run(receiving.receive(1, 3600, LATER))


def test_closing_a_receiver_gives_back_what_nobody_took_and_detaches() -> None:
    shell = MemoryShell(broker := stocked(3))
    receiving = receiving_from(shell, prefetch=10)
    shell.run(receiving.receive(1, LATER, LATER))
    shell.run(receiving.close(LATER))
    [(tokens, state, settled)] = broker.settlements
    assert (len(tokens), type(state).__name__, settled) == (2, "Released", True)
    assert len(broker.detached) == 1


def test_a_message_without_a_lock_cannot_be_settled() -> None:
    shell = MemoryShell(ScriptedBroker())
    with pytest.raises(MessageNotLocked):
        shell.run(receiving_from(shell).settle([ReceivedMessage(b"")], COMPLETE, LATER))
    assert not shell.attempts
