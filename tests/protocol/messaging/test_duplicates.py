"""Duplicate detection as senders see it: accepted, and dropped."""

import uuid

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.values import Symbol, Timestamp, Ulong
from bendybus.testing.clock import NOON
from tests.protocol.messaging.requesting import requests_to
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message
from tests.protocol.messaging.serving import Served

ONCE = pytest.mark.parametrize("queue", ["once", "once-parts"])


@pytest.mark.spec("R4")
@ONCE
async def test_a_duplicate_is_accepted_and_dropped(served: Served, queue: str) -> None:
    sender = await (await served.client()).sender(queue)
    for delivery in range(3):
        assert await sender.sent(message(b"%d" % delivery, message_id="a"), delivery) == Accepted()
    assert await sender.sent(message(message_id="b"), 3) == Accepted()

    assert await served.count(queue) == 2


@pytest.mark.spec("R4")
@ONCE
async def test_ids_of_any_type_are_compared_as_texts(served: Served, queue: str) -> None:
    sender = await (await served.client()).sender(queue)
    some = uuid.UUID(int=77)
    ids = ["5", Ulong(5), b"5", some, str(some), "6"]
    for delivery, message_id in enumerate(ids):
        assert await sender.sent(message(message_id=message_id), delivery) == Accepted()

    assert await served.count(queue) == 3


@ONCE
async def test_messages_without_an_id_are_all_taken(served: Served, queue: str) -> None:
    sender = await (await served.client()).sender(queue)
    for delivery in range(3):
        assert await sender.sent(message(message_id=None), delivery) == Accepted()

    assert await served.count(queue) == 3


@pytest.mark.spec("R2.1")
@ONCE
async def test_a_batch_is_taken_without_its_duplicates(served: Served, queue: str) -> None:
    sender = await (await served.client()).sender(queue)
    await sender.sent(message(message_id="id 3"), 0)
    ids = [f"id {n % 10}" for n in range(20)]
    payload = batch(*(message(message_id=each) for each in ids))

    assert await sender.sent(payload, 1, message_format=BATCH_FORMAT) == Accepted()
    assert await sender.sent(payload, 2, message_format=BATCH_FORMAT) == Accepted()

    assert await served.count(queue) == 10


@pytest.mark.spec("R2.5")
async def test_a_batch_whose_fragments_are_partly_away_is_refused_and_can_be_sent_again(
    served: Served,
) -> None:
    sender = await (await served.client()).sender("once-parts")
    payload = batch(*(message(message_id=f"id {n}") for n in range(20)))
    store = served.broker.stores[1]
    await store.take_offline("a test")

    outcome = await sender.sent(payload, 0, message_format=BATCH_FORMAT)

    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "com.microsoft:server-busy"
    await store.bring_online()
    assert await sender.sent(payload, 1, message_format=BATCH_FORMAT) == Accepted()
    assert await served.count("once-parts") == 20


@ONCE
async def test_a_duplicate_that_is_scheduled_has_no_number(served: Served, queue: str) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{queue}/$management")
    at: dict[object, object] = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOON + 5000)}
    entries = [{"message": message(message_id=each, annotations=at)} for each in ("a", "b", "a")]
    wanted = {"messages": entries}

    first = await requests.ask("com.microsoft:schedule-message", wanted)
    second = await requests.ask("com.microsoft:schedule-message", wanted)

    assert [bool(each) for each in first.body["sequence-numbers"].items] == [True, True, False]
    assert second.body["sequence-numbers"].items == (0, 0, 0)
    assert await served.count(queue) == 2
