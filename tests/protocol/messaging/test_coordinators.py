"""The coordinator: who declares and discharges what, and what ends a transaction (part 4)."""

import pytest

from bendybus.amqp.outcomes import Accepted, Declare, Declared, Discharge, Rejected
from bendybus.amqp.performatives import Detach, End
from bendybus.amqp.terminus import Coordinator, Source
from bendybus.amqp.values import Symbol
from bendybus.broker import open_transactions
from bendybus.testing.wire_client import WireClient, sending
from tests.protocol.messaging.sample_messages import message
from tests.protocol.messaging.serving import Served, stalled
from tests.protocol.messaging.test_transactions import (
    ROLLBACK,
    TIMEOUT,
    UNKNOWN_ID,
    condition_of,
)
from tests.protocol.messaging.transacting import (
    Controller,
    controller_of,
    coordinating,
    encode_body,
    held,
    part_of,
    send_part,
    settle_part,
)

TRANSACTION_SECONDS = 120


@pytest.mark.amqp("4.2", "4.5.5")
async def test_every_declare_gets_an_id_of_its_own(served: Served) -> None:
    controller = await controller_of(await served.client())

    ids = [await controller.declare() for _ in range(3)]

    assert len(set(ids)) == 3
    assert all(0 < len(each) <= 32 for each in ids)


@pytest.mark.amqp("4.5.1")
async def test_a_coordinator_says_what_it_can(served: Served) -> None:
    link = await (await served.client()).attach(coordinating(target=Coordinator(None)))

    assert link.answer.target == Coordinator(
        tuple(
            map(
                Symbol,
                (
                    "amqp:local-transactions",
                    "amqp:multi-txns-per-ssn",
                    "amqp:multi-ssns-per-txn",
                ),
            )
        )
    )


async def test_whoever_has_proved_nothing_can_declare_but_let_nothing_join(
    served: Served,
) -> None:
    """The official clients put no token for the coordinator."""
    client = await served.stranger()
    await client.log_in()
    await client.begin()
    controller = await controller_of(client)
    assert await controller.declare()

    sender = await client.attach(sending("orders", handle=3))

    error = (await sender.detached()).error
    assert error is not None
    assert error.condition == "amqp:unauthorized-access"


@pytest.mark.amqp("4.3", "4.5.8")
@pytest.mark.parametrize("fail", [False, True])
async def test_a_transaction_is_discharged_once(served: Served, fail: bool) -> None:
    controller = await controller_of(await served.client())
    transaction = await controller.declare()
    assert await controller.tell(Discharge(transaction, fail=fail)) == Accepted()

    for again in (False, True):
        answer = await controller.tell(Discharge(transaction, fail=again))
        assert condition_of(answer) == UNKNOWN_ID


@pytest.mark.parametrize("made_up", [b"", b"x", bytes(16), bytes(33)])
async def test_an_id_that_nobody_declared_is_unknown_everywhere(
    served: Served, made_up: bytes
) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, "orders")
    controller = await controller_of(client)
    sender = await client.sender("orders", handle=3)

    answers = [
        await controller.commit(made_up),
        await send_part(sender, 100, made_up),
        await settle_part(receiver, delivery, made_up),
    ]

    assert [condition_of(each) for each in answers] == [UNKNOWN_ID] * 3
    assert await served.count("orders") == 1


async def test_an_id_of_another_connection_is_unknown(served: Served) -> None:
    owner = await controller_of(await served.client())
    transaction = await owner.declare()
    client = await served.client()
    stranger = await controller_of(client)

    sent = await send_part(await client.sender("orders"), 1, transaction)

    assert condition_of(sent) == UNKNOWN_ID
    assert condition_of(await stranger.commit(transaction)) == UNKNOWN_ID
    assert await owner.commit(transaction) == Accepted()


@pytest.mark.amqp("4.5.1")
async def test_one_transaction_can_have_parts_in_several_sessions(served: Served) -> None:
    client = await served.client()
    await client.begin(1)
    controller = await controller_of(client, channel=1)
    sender = await client.sender("orders")
    transaction = await controller.declare()
    await send_part(sender, 1, transaction)

    assert await controller.commit(transaction) == Accepted()
    assert await served.count("orders") == 1


@pytest.mark.amqp("4.5.1")
async def test_several_transactions_of_one_session_do_not_touch_each_other(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    kept, dropped = await controller.declare(), await controller.declare()
    await send_part(sender, 1, kept)
    await send_part(sender, 2, dropped)

    assert await controller.roll_back(dropped) == Accepted()
    assert await controller.commit(kept) == Accepted()
    assert await served.count("orders") == 1


# What ends a transaction


async def _begun(served: Served) -> tuple[WireClient, Controller, bytes]:
    client = await served.client()
    await client.begin(1)
    controller = await controller_of(client, channel=1)
    transaction = await controller.declare()
    assert await send_part(await client.sender("orders"), 1, transaction) == part_of(
        transaction, Accepted()
    )
    return client, controller, transaction


@pytest.mark.amqp("4.2")
async def test_a_coordinator_that_is_detached_rolls_back(served: Served) -> None:
    client, controller, transaction = await _begun(served)

    client.say(Detach(handle=controller.link.handle, closed=True), channel=1)
    await controller.link.detached()

    again = await controller_of(client, handle=51)
    assert condition_of(await again.commit(transaction)) == UNKNOWN_ID
    assert await served.count("orders") == 0


async def test_a_coordinator_whose_session_ends_rolls_back(served: Served) -> None:
    client, _, transaction = await _begun(served)

    client.say(End(), channel=1)
    await client.hear(End)

    again = await controller_of(client, handle=51)
    assert condition_of(await again.commit(transaction)) == UNKNOWN_ID
    assert await served.count("orders") == 0


async def test_a_connection_that_ends_rolls_back_and_the_lock_stays(served: Served) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, "orders")
    controller = await controller_of(client)
    await settle_part(receiver, delivery, await controller.declare())
    [connection] = served.listener.connections

    connection.outlet.transport.abort()
    await connection.ended

    assert await served.count("orders") == 1


async def test_a_transaction_ends_two_minutes_after_it_was_declared(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    early, late = await controller.declare(), await controller.declare()
    await send_part(sender, 1, early)
    await send_part(sender, 2, late)

    served.clock.advance(TRANSACTION_SECONDS - 1)
    assert await controller.commit(early) == Accepted()
    served.clock.advance(1)

    assert condition_of(await send_part(sender, 3, late)) == TIMEOUT
    assert condition_of(await controller.commit(late)) == TIMEOUT
    assert condition_of(await controller.commit(late)) == UNKNOWN_ID
    assert await served.count("orders") == 1


async def test_a_transaction_that_is_overdue_holds_no_memory(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    for number in range(3):
        await send_part(sender, number, await controller.declare(), message(bytes(100_000)))
    [connection] = served.listener.connections
    assert connection._transactions.buffered_bytes > 300_000

    served.clock.advance(TRANSACTION_SECONDS)
    connection.tick(served.clock.now())

    assert connection._transactions.buffered_bytes == 0


async def test_a_connection_has_at_most_a_hundred_open_transactions(served: Served) -> None:
    controller = await controller_of(await served.client())
    ids = [await controller.declare() for _ in range(100)]

    answer = await controller.tell(Declare())

    assert condition_of(answer) == "amqp:resource-limit-exceeded"
    await controller.roll_back(ids[0])
    assert await controller.declare()


async def test_open_transactions_hold_a_bounded_number_of_bytes(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    first, second = await controller.declare(), await controller.declare()
    large = message(bytes(250 * 1024))
    for number in range(99):
        assert await send_part(sender, number, first, large) == part_of(first, Accepted())

    answers = [await send_part(sender, 200 + number, second, large) for number in range(50)]

    assert condition_of(answers[-1]) == "amqp:resource-limit-exceeded"
    assert condition_of(await controller.commit(second)) == ROLLBACK
    assert await controller.commit(first) == Accepted()
    assert await served.count("orders") == 99


@pytest.mark.parametrize("bound", ["OPEN_MAX", "BUFFERED_BYTES_MAX"])
async def test_what_is_being_committed_still_counts_as_open(
    served: Served, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions, bound, {"OPEN_MAX": 1}.get(bound, 1000))
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    payload = message(bytes(600))

    async with stalled(served.broker.stores[0]):
        first = await controller.declare()
        await send_part(sender, 1, first, payload)
        commit = controller.say(Discharge(first, fail=False))
        answer = await controller.tell(Declare())
        if isinstance(answer, Declared):
            answer = await send_part(sender, 2, answer.txn_id, payload)
        assert condition_of(answer) == "amqp:resource-limit-exceeded"

    assert await client.outcome(0, commit, receiver=True) == Accepted()
    await controller.roll_back(await controller.declare())


# What a coordinator does not understand


@pytest.mark.amqp("4.3")
@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        pytest.param(message(), "com.microsoft:argument-error", id="a message"),
        pytest.param(b"", "com.microsoft:argument-error", id="nothing"),
        pytest.param(b"\x00\x53\x77\xff", "com.microsoft:argument-error", id="garbage"),
        pytest.param(encode_body(Accepted()), "com.microsoft:argument-error", id="an outcome"),
        pytest.param(encode_body(Declare(b"global")), "amqp:not-implemented", id="a global id"),
        pytest.param(bytes(5000), "com.microsoft:argument-error", id="too large"),
    ],
)
async def test_what_a_coordinator_does_not_understand_is_rejected(
    served: Served, payload: bytes, condition: str
) -> None:
    controller = await controller_of(await served.client())

    assert condition_of(await controller.link.sent(payload, 1)) == condition

    assert isinstance(await controller.tell(Declare()), Declared)


@pytest.mark.amqp("4.3")
async def test_a_client_that_knows_no_rejection_is_detached_with_the_error(served: Served) -> None:
    source = Source(address="client", outcomes=(Symbol("amqp:accepted:list"),))
    link = await (await served.client()).attach(coordinating(source=source))

    Controller(link).say(Discharge(b"unknown", fail=False))

    error = (await link.detached()).error
    assert error is not None
    assert error.condition == UNKNOWN_ID


async def test_a_declare_that_is_settled_could_not_be_answered(served: Served) -> None:
    controller = await controller_of(await served.client())

    controller.say(Declare(), settled=True)

    error = (await controller.link.detached()).error
    assert error is not None
    assert error.condition == "amqp:not-allowed"


async def test_a_discharge_that_is_settled_is_made_and_not_answered(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    transaction = await controller.declare()
    await send_part(sender, 1, transaction)

    controller.say(Discharge(transaction, fail=False), settled=True)

    assert condition_of(await controller.commit(transaction)) == UNKNOWN_ID
    receiver = await client.receiver("orders")
    receiver.flow(link_credit=1)
    await receiver.receive()
    assert not any(isinstance(each.state, Accepted) for each in client.outcomes_heard())


async def test_the_credit_of_a_coordinator_does_not_run_out(served: Served) -> None:
    controller = await controller_of(await served.client())
    for _ in range(250):
        assert await controller.roll_back(await controller.declare()) == Accepted()
    assert not any(
        isinstance(each.state, Rejected) for each in controller.link.client.outcomes_heard()
    )
