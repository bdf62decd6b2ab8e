"""Getting to the broker, proving who we are, and getting back after a loss. In memory."""

import itertools
from datetime import timedelta
from typing import TypeVar

import pytest

from bendybus.amqp.outcomes import AmqpError
from bendybus.client.connecting import RETRY_SECONDS_MAX, RETRY_SECONDS_MIN
from bendybus.client.endpoint import TOKEN_RENEWED_AFTER, Credential, credential_of, endpoint_of
from bendybus.client.errors import (
    ClientClosed,
    ConnectionLost,
    EntityNotFound,
    PartlyFailed,
    TimedOut,
    Unauthorized,
)
from bendybus.client.message import Message
from bendybus.client.receiving import Receiving
from bendybus.client.sending import Sending
from bendybus.client.steps import Instruction, Step
from bendybus.model.access import AccessRule, Keyring, Right, read_sas
from bendybus.model.connection_string import parse_connection_string
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import ScriptedBroker, address_of

T = TypeVar("T")

LATER = 30.0
RULE = AccessRule("rule", "key", frozenset({Right.SEND}))


def addresses(broker: ScriptedBroker) -> list[str]:
    return [address_of(attach) for attach in broker.attaches]


def test_nothing_is_connected_until_something_is_needed() -> None:
    shell = MemoryShell(ScriptedBroker())
    Sending(shell.connector, "orders")
    assert not shell.attempts


def test_a_token_for_the_entity_is_put_before_a_link_to_it_is_attached() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    shell.run(Sending(shell.connector, "orders").attached(LATER))
    assert addresses(broker) == ["$cbs", "from $cbs", "orders"]
    [(audience, token)] = broker.tokens
    assert audience == "sb://broker.example/orders"
    assert isinstance(token, str)
    claims = read_sas(token, Keyring((RULE,)))
    claims.check_covers("orders")
    assert claims.expires_at - shell.clock() == timedelta(hours=1)


def test_a_ready_token_is_put_as_it_is_and_never_renewed() -> None:
    credential = Credential("broker.example", token="SharedAccessSignature sr=...")
    shell = MemoryShell(broker := ScriptedBroker(), credential=credential)
    sending = Sending(shell.connector, "orders")
    shell.run(sending.send([Message(b"a")], LATER))
    shell.time += 7200
    shell.run(sending.send([Message(b"b")], shell.time + LATER))
    assert [token for _, token in broker.tokens] == ["SharedAccessSignature sr=..."]


def test_a_token_is_renewed_in_place_before_it_ends() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    sending = Sending(shell.connector, "orders")
    shell.run(sending.send([Message(b"a")], LATER))
    shell.time += TOKEN_RENEWED_AFTER.total_seconds()
    shell.run(sending.send([Message(b"b")], shell.time + LATER))
    assert [audience for audience, _ in broker.tokens] == ["sb://broker.example/orders"] * 2
    assert addresses(broker).count("orders") == 1


def test_a_receiver_that_waits_for_hours_renews_its_token() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    receiving = Receiving(shell.connector, "orders", is_deleting=False, prefetch=0)
    assert shell.run(receiving.receive(1, 2 * 3600, LATER)) == []
    assert len(broker.tokens) == 3
    assert shell.time == 2 * 3600


def test_a_refusal_by_sasl_is_not_tried_again() -> None:
    shell = MemoryShell(broker := ScriptedBroker(), ScriptedBroker())
    broker.lets_in = False
    with pytest.raises(Unauthorized):
        shell.run(Sending(shell.connector, "orders").attached(LATER))
    assert len(shell.attempts) == 1


def test_a_host_that_refuses_is_tried_at_growing_intervals_until_the_deadline() -> None:
    shell = MemoryShell()
    with pytest.raises(ConnectionLost, match=r"broker\.example:5672: nobody listens"):
        shell.run(Sending(shell.connector, "orders").attached(LATER))
    pauses = [round(after - at, 3) for at, after in itertools.pairwise(shell.attempts)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (RETRY_SECONDS_MIN, RETRY_SECONDS_MAX)
    assert LATER - RETRY_SECONDS_MAX <= shell.time <= LATER


def test_a_link_that_is_refused_is_asked_for_again_by_the_next_call() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    sending = Sending(shell.connector, "orders")
    broker.refusals["orders"] = AmqpError("amqp:not-found", "No such queue.", {})
    with pytest.raises(EntityNotFound, match="No such queue") as refusal:
        shell.run(sending.send([Message(b"a")], LATER))
    assert refusal.value.condition == "amqp:not-found"
    assert not refusal.value.is_retryable
    broker.refusals.clear()
    shell.run(sending.send([Message(b"a")], LATER))
    assert len(broker.messages) == 1


def test_a_sender_attaches_again_after_a_loss() -> None:
    shell = MemoryShell(first := ScriptedBroker(), second := ScriptedBroker())
    sending = Sending(shell.connector, "orders")
    shell.run(sending.send([Message(b"a")], LATER))
    shell.cut()
    shell.run(sending.send([Message(b"b")], LATER))
    assert (len(first.messages), len(second.messages)) == (1, 1)


def test_a_connection_lost_while_attaching_is_made_again_within_the_same_call() -> None:
    shell = MemoryShell(first := ScriptedBroker(), second := ScriptedBroker())
    shell.cut_when = lambda: "orders" in first.links and not second.links
    shell.run(Sending(shell.connector, "orders").send([Message(b"a")], LATER))
    assert len(second.messages) == 1


def test_a_send_whose_answers_are_lost_is_not_repeated_and_says_what_is_unknown() -> None:
    shell = MemoryShell(first := ScriptedBroker(), second := ScriptedBroker())
    first.credit = 2
    shell.cut_when = lambda: len(first.messages) >= 4
    with pytest.raises(PartlyFailed) as failure:
        shell.run(Sending(shell.connector, "orders").send([Message(b"x")] * 5, LATER))
    assert failure.value.is_retryable
    assert failure.value.done == [0, 1]
    assert failure.value.unknown == [2, 3]
    assert failure.value.untried == [4]
    assert not second.messages


def test_a_single_send_whose_answer_is_lost_raises_the_loss_itself() -> None:
    shell = MemoryShell(first := ScriptedBroker())
    shell.cut_when = lambda: bool(first.messages)
    with pytest.raises(ConnectionLost, match="the test cut it"):
        shell.run(Sending(shell.connector, "orders").send([Message(b"x")], LATER))


def test_a_send_without_credit_times_out_and_nothing_was_tried() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    sending = Sending(shell.connector, "orders")
    shell.run(sending.attached(LATER))
    broker.links["orders"].grant(0)
    shell.exchange()
    with pytest.raises(TimedOut):
        shell.run(sending.send([Message(b"x")] * 2, LATER))
    assert shell.time == LATER
    assert not broker.messages


def test_messages_fetched_ahead_are_given_back_when_the_client_closes() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    receiving = Receiving(shell.connector, "orders", is_deleting=False, prefetch=5)
    broker.to_deliver.extend(Message(b"x").encode() for _ in range(3))
    [taken] = shell.run(receiving.receive(1, LATER, LATER))
    shell.run(shell.connector.close(LATER))
    [(tokens, state, settled)] = broker.settlements
    assert len(tokens) == 2
    assert taken.lock_token not in tokens
    assert (type(state).__name__, settled) == ("Released", True)


def test_a_closed_client_refuses_everything() -> None:
    shell = MemoryShell(ScriptedBroker(), ScriptedBroker())
    sending = Sending(shell.connector, "orders")
    shell.run(sending.send([Message(b"a")], LATER))
    shell.run(shell.connector.close(LATER))
    with pytest.raises(ClientClosed):
        shell.run(sending.send([Message(b"b")], LATER))
    assert len(shell.attempts) == 1


def test_a_second_step_waits_for_the_connection_that_the_first_is_making() -> None:
    shell = MemoryShell(ScriptedBroker())
    first, second = shell.connector.connected(LATER), shell.connector.connected(LATER)
    wanted_by_first, wanted_by_second = next(first), next(second)
    connection = shell.run(_resumed(first, wanted_by_first))
    assert shell.run(_resumed(second, wanted_by_second)) is connection
    assert len(shell.attempts) == 1


def test_a_step_that_is_given_up_while_it_connects_lets_another_try() -> None:
    shell = MemoryShell(ScriptedBroker())
    abandoned = shell.connector.connected(LATER)
    next(abandoned)
    abandoned.close()
    assert shell.run(shell.connector.connected(LATER)).is_usable()


def _resumed(step: Step[T], instruction: Instruction) -> Step[T]:
    """Let the shell go on with a step that the test has begun, from the instruction it gave."""
    while True:
        now = yield instruction
        try:
            instruction = step.send(now)
        except StopIteration as stop:
            result: T = stop.value
            return result


@pytest.mark.parametrize(
    ("endpoint", "flag", "port", "has_tls"),
    [
        ("sb://host", "UseDevelopmentEmulator=true", 5672, False),
        ("sb://host:7777", "UseDevelopmentEmulator=true", 7777, False),
        ("sb://host", "", 5671, True),
        ("sb://host:7777", "", 7777, True),
    ],
)
def test_only_the_development_flag_goes_without_tls(
    endpoint: str, flag: str, port: int, has_tls: bool
) -> None:
    text = f"Endpoint={endpoint};SharedAccessKeyName=rule;SharedAccessKey=secret;{flag}"
    given = parse_connection_string(text)
    found = endpoint_of(given, None)
    assert (found.host, found.port, found.tls is not None) == ("host", port, has_tls)
    assert "secret" not in repr(credential_of(given))
