"""Transactions: what joins, what is refused, and what becomes of it (R5, AMQP 1.0 part 4)."""

import pytest

from bendybus.amqp.outcomes import Accepted, Discharge, Modified, Rejected, TransactionalState
from bendybus.amqp.performatives import Disposition
from bendybus.model.ids import SubQueue
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served
from tests.protocol.messaging.transacting import (
    ACCEPTED,
    controller_of,
    held,
    part_of,
    send_part,
    settle_part,
)

QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])
NOT_ALLOWED = "amqp:not-allowed"
ROLLBACK = "amqp:transaction:rollback"
UNKNOWN_ID = "amqp:transaction:unknown-id"
TIMEOUT = "amqp:transaction:timeout"


def condition_of(state: object) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition


def text_of(state: object) -> str:
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.description or ""


@pytest.mark.spec("R5.4")
@pytest.mark.amqp("4.4.1")
@QUEUES
async def test_what_is_sent_in_a_transaction_is_there_after_the_commit_and_not_before(
    served: Served, queue: str
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender(queue)
    transaction = await controller.declare()

    assert await send_part(sender, 1, transaction) == part_of(transaction, ACCEPTED)
    assert await send_part(sender, 2, transaction) == part_of(transaction, ACCEPTED)
    assert await served.count(queue) == 0

    assert await controller.commit(transaction) == Accepted()
    assert await served.count(queue) == 2


@pytest.mark.spec("R5.4")
@QUEUES
async def test_what_is_sent_in_a_transaction_that_is_rolled_back_never_was(
    served: Served, queue: str
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender(queue)
    transaction = await controller.declare()
    await send_part(sender, 1, transaction)

    assert await controller.roll_back(transaction) == Accepted()

    assert await served.count(queue) == 0


@pytest.mark.spec("R5.4")
@pytest.mark.amqp("4.4.2")
@QUEUES
@pytest.mark.parametrize(
    ("outcome", "answer", "left", "dead"),
    [
        pytest.param(Accepted(), Accepted(), 0, 0, id="complete"),
        pytest.param(Modified(True, False, None), Modified(None, False, None), 1, 0, id="abandon"),
        pytest.param(Modified(None, True, None), Modified(None, True, None), 1, 0, id="defer"),
        pytest.param(Rejected(None), Rejected(None), 0, 1, id="dead-letter"),
    ],
)
async def test_a_settlement_in_a_transaction_is_mirrored_at_once_and_made_at_the_commit(
    served: Served, queue: str, outcome: object, answer: object, left: int, dead: int
) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, queue)
    controller = await controller_of(client)
    transaction = await controller.declare()

    mirrored = await settle_part(receiver, delivery, transaction, outcome)

    assert mirrored == TransactionalState(transaction, answer)
    assert await served.count(queue) == 1
    assert await served.count(queue, SubQueue.DEAD_LETTER) == 0
    assert await controller.commit(transaction) == Accepted()
    assert await served.count(queue) == left
    assert await served.count(queue, SubQueue.DEAD_LETTER) == dead


@pytest.mark.spec("R5.4")
@QUEUES
async def test_a_roll_back_leaves_lock_and_count_as_they_were(served: Served, queue: str) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, queue)
    controller = await controller_of(client)
    transaction = await controller.declare()
    await settle_part(receiver, delivery, transaction)

    await controller.roll_back(transaction)

    # Under its lock still, so nobody gets it; and then as if nobody had settled it.
    receiver.flow(link_credit=1)
    served.clock.advance(LOCK_SECONDS - 1)
    await served.broker.sweep.sweep_all()
    assert await served.count(queue) == 1
    served.clock.advance(1)
    await served.broker.sweep.sweep_all()
    assert see((await receiver.receive()).payload).delivery_count == 1


@pytest.mark.spec("R5.4")
@QUEUES
async def test_a_lock_that_ended_before_the_commit_rolls_everything_back(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, queue)
    controller = await controller_of(client)
    sender = await client.sender(queue, handle=3)
    transaction = await controller.declare()
    await settle_part(receiver, delivery, transaction)
    await send_part(sender, 100, transaction)

    served.clock.advance(LOCK_SECONDS + 1)
    answer = await controller.commit(transaction)

    assert condition_of(answer) == ROLLBACK
    assert "lock" in text_of(answer)
    assert await served.count(queue) == 1


@QUEUES
async def test_a_lock_that_has_ended_cannot_join(served: Served, queue: str) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, queue)
    controller = await controller_of(client)
    transaction = await controller.declare()
    served.clock.advance(LOCK_SECONDS + 1)

    answer = await settle_part(receiver, delivery, transaction)

    assert condition_of(answer) == "com.microsoft:message-lock-lost"
    assert condition_of(await controller.commit(transaction)) == ROLLBACK


async def test_messages_settled_and_sent_at_once_leave_in_one_commit(served: Served) -> None:
    client = await served.client()
    receiver, deliveries = await held(client, "orders", 3)
    controller = await controller_of(client)
    sender = await client.sender("orders", handle=3)
    transaction = await controller.declare()
    receiver.settle(deliveries[0], part_of(transaction, ACCEPTED), last=deliveries[2])
    payload = batch(message(b"a"), message(b"b"))
    state = part_of(transaction)
    sender.send(payload, 100, message_format=BATCH_FORMAT, state=state, settled=True)

    # Behind them, without waiting for an answer: it finds them all.
    assert await controller.commit(transaction) == Accepted()

    assert await receiver.confirmed(deliveries[2]) == part_of(transaction, ACCEPTED)
    assert await served.count("orders") == 2


async def test_what_comes_behind_the_discharge_does_not_join(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    transaction = await controller.declare()
    await send_part(sender, 1, transaction)

    controller.say(Discharge(transaction, fail=False))
    late = await send_part(sender, 2, transaction)

    assert condition_of(late) == UNKNOWN_ID
    assert await served.count("orders") == 1


# What may not join (R5.1 to R5.3)


@pytest.mark.spec("R5.1")
async def test_a_message_without_a_key_is_refused_on_a_partitioned_queue(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("parts")
    transaction = await controller.declare()

    answer = await send_part(sender, 1, transaction, message())

    assert condition_of(answer) == NOT_ALLOWED
    assert "PartitionKey" in text_of(answer)


@pytest.mark.spec("R5.1")
@pytest.mark.spec("R5.3")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(message(partition_key="one"), message(partition_key="two"), id="keys"),
        pytest.param(message(session_id="one"), message(session_id="two"), id="sessions"),
    ],
)
async def test_a_second_key_is_refused_on_a_partitioned_queue(
    served: Served, first: bytes, second: bytes
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("parts")
    transaction = await controller.declare()
    assert await send_part(sender, 1, transaction, first) == part_of(transaction, ACCEPTED)

    answer = await send_part(sender, 2, transaction, second)

    assert condition_of(answer) == NOT_ALLOWED
    assert "'two' came after 'one'" in text_of(answer)
    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count("parts") == 0


@pytest.mark.spec("R5.1")
async def test_two_keys_in_one_batch_are_refused_on_a_partitioned_queue(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("parts")
    transaction = await controller.declare()
    payload = batch(message(partition_key="one"), message(partition_key="two"))

    answer = await sender.sent(payload, 1, message_format=BATCH_FORMAT, state=part_of(transaction))

    assert condition_of(answer) == NOT_ALLOWED


@pytest.mark.spec("R5.3")
async def test_a_conventional_queue_takes_several_sessions_in_one_transaction(
    served: Served,
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    transaction = await controller.declare()
    for number, session in enumerate(["a", "b", "c"]):
        await send_part(sender, number, transaction, message(session_id=session))

    assert await controller.commit(transaction) == Accepted()
    assert await served.count("orders") == 3


@pytest.mark.spec("R5.2")
@QUEUES
async def test_a_session_with_another_partition_key_is_refused(served: Served, queue: str) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender(queue)
    transaction = await controller.declare()

    answer = await send_part(sender, 1, transaction, message(session_id="s", partition_key="other"))

    assert condition_of(answer) == NOT_ALLOWED
    assert condition_of(await controller.commit(transaction)) == ROLLBACK


async def test_a_refused_part_dooms_the_rest_even_if_its_sender_does_not_listen(
    served: Served,
) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("parts")
    transaction = await controller.declare()
    await send_part(sender, 1, transaction)
    sender.send(message(), 2, state=part_of(transaction), settled=True)

    answer = await controller.commit(transaction)

    assert condition_of(answer) == ROLLBACK
    assert "SessionId or a PartitionKey" in text_of(answer)
    assert await served.count("parts") == 0


async def test_a_message_that_cannot_be_read_dooms_the_rest(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    transaction = await controller.declare()
    await send_part(sender, 1, transaction)

    assert isinstance(await send_part(sender, 2, transaction, b"\xff"), Rejected)

    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count("orders") == 0


async def test_a_message_that_is_too_large_dooms_the_rest(served: Served) -> None:
    client = await served.client()
    controller = await controller_of(client)
    sender = await client.sender("orders")
    transaction = await controller.declare()

    answer = await send_part(sender, 1, transaction, message(bytes(300 * 1024)))

    assert condition_of(answer) == "amqp:link:message-size-exceeded"
    assert condition_of(await controller.commit(transaction)) == ROLLBACK


@pytest.mark.amqp("3.4")
async def test_of_two_outcomes_of_one_delivery_the_first_is_final(served: Served) -> None:
    client = await served.client()
    _, [delivery] = await held(client, "orders")
    controller = await controller_of(client)
    transaction = await controller.declare()
    states = [part_of(transaction, each) for each in (ACCEPTED, Modified(True, False, None))]
    # Both in one write: the answer to the first settles the delivery.
    client.say(*[Disposition(role=True, first=delivery.delivery_id, state=each) for each in states])

    assert await controller.commit(transaction) == Accepted()
    assert await served.count("orders") == 0


async def test_an_outcome_that_is_none_dooms_the_rest(served: Served) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, "orders")
    controller = await controller_of(client)
    transaction = await controller.declare()

    answer = await settle_part(receiver, delivery, transaction, part_of(transaction, ACCEPTED))

    assert condition_of(answer) == "com.microsoft:argument-error"
    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count("orders") == 1


@pytest.mark.spec("R5.6")
async def test_messages_of_a_second_entity_cannot_be_settled(served: Served) -> None:
    client = await served.client()
    receiver, [delivery] = await held(client, "orders")
    controller = await controller_of(client)
    sender = await client.sender("spare", handle=3)
    transaction = await controller.declare()
    await send_part(sender, 100, transaction)

    answer = await settle_part(receiver, delivery, transaction)

    assert condition_of(answer) == NOT_ALLOWED
    assert "belongs to 'spare'" in text_of(answer)


@pytest.mark.spec("R5.1")
async def test_messages_of_two_fragments_cannot_be_settled_together(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("parts")
    for number in range(16):
        await sender.sent(message(partition_key=f"key {number}"), number)
    receiver = await client.receiver("parts", handle=91)
    receiver.flow(link_credit=16)
    deliveries = [await receiver.receive() for _ in range(16)]
    by_fragment = {see(each.payload).sequence >> 48: each for each in deliveries}
    first, second, *_ = by_fragment.values()
    controller = await controller_of(client)
    transaction = await controller.declare()
    await settle_part(receiver, first, transaction)

    answer = await settle_part(receiver, second, transaction)

    assert condition_of(answer) == NOT_ALLOWED
    assert "of fragment" in text_of(answer)


async def test_a_transaction_has_at_most_a_hundred_messages(served: Served) -> None:
    client = await served.client()
    receiver, deliveries = await held(client, "orders", 2)
    controller = await controller_of(client)
    sender = await client.sender("orders", handle=3)
    transaction = await controller.declare()
    await settle_part(receiver, deliveries[0], transaction)
    payload = batch(*[message(b"%d" % number) for number in range(99)])
    await sender.sent(payload, 100, message_format=BATCH_FORMAT, state=part_of(transaction))

    answer = await settle_part(receiver, deliveries[1], transaction)

    assert condition_of(answer) == "amqp:resource-limit-exceeded"
    assert "at most 100 messages" in text_of(answer)
    assert condition_of(await controller.commit(transaction)) == ROLLBACK
    assert await served.count("orders") == 2
