"""send: grouping, round robin, expiry, and what happens when a fragment cannot take it (R2)."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from bendybus.broker.expiry import set_expiry
from bendybus.broker.send import (
    check_one_key,
    check_open_for_send,
    group_by_fragment,
    send,
)
from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import (
    EntityDisabled,
    InvalidOperation,
    QuotaExceeded,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.model.partitioning import fragment_for
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import receive_all, send_each, verbs


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


async def _counts(broker: LocalBroker, name: str) -> list[int]:
    sources = broker.queue(name).main.sources
    return [(await each.store.counts(each.number)).messages for each in sources]


@pytest.mark.spec("R2.1")
async def test_messages_are_grouped_by_the_fragment_of_their_key(broker: LocalBroker) -> None:
    keys = ["a", None, "b", None, "a"]

    groups = group_by_fragment(
        broker.queue("parts"), [Message(b"", partition_key=key) for key in keys]
    )

    assert groups == {fragment_for("a", 16): [0, 4], None: [1, 3], fragment_for("b", 16): [2]}


async def test_on_a_conventional_queue_all_go_together(broker: LocalBroker) -> None:
    messages = [Message(b"", partition_key=key) for key in ("a", None)]

    assert group_by_fragment(broker.queue("orders"), messages) == {FragmentIndex(0): [0, 1]}


@pytest.mark.spec("R2.4")
async def test_each_keyless_send_takes_the_next_fragment(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    for size in (5, 1, 3):
        await send(queue, [Message(b"x")] * size, None, clock)

    assert await _counts(broker, "parts") == [5, 1, 3] + [0] * 13


@pytest.mark.spec("R2.5")
async def test_a_keyless_send_skips_what_is_away_and_what_is_full(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    await broker.stores[queue.main.sources[0].store.status().number].take_offline("drill")
    queue.fragment_bytes_max = 2000
    await send(queue, [Message(b"x" * 1500)], FragmentIndex(1), clock)

    await send(queue, [Message(b"x" * 1500)], None, clock)

    online = queue.main.sources[3]
    assert (await online.store.counts(online.number)).messages == 1


@pytest.mark.spec("R2.5")
async def test_a_send_with_a_key_names_the_store_that_is_away(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    number = queue.main.sources[4].store.status().number
    await broker.stores[number].take_offline("drill")

    with pytest.raises(StoreUnavailable) as refusal:
        await send(queue, [Message(b"x")], FragmentIndex(4), clock)

    assert (refusal.value.store, refusal.value.fragment) == (number, 4)
    assert refusal.value.entity == "parts"


@pytest.mark.spec("R1.6")
async def test_a_full_fragment_refuses_and_nothing_of_the_batch_is_kept(
    broker: LocalBroker, clock: ManualClock
) -> None:
    queue = broker.queue("parts")
    queue.fragment_bytes_max = 2000

    with pytest.raises(QuotaExceeded, match=r"'parts' has been reached in fragment 4\."):
        await send(queue, [Message(b"x" * 900)] * 3, FragmentIndex(4), clock)

    assert sum(await _counts(broker, "parts")) == 0


@pytest.mark.spec("R2.2")
@pytest.mark.parametrize(
    ("name", "keys", "is_refused"),
    [
        ("parts", ["a", "b"], True),
        ("parts", ["a", "a"], False),
        ("parts", ["a", None], False),
        ("parts", [None, None], False),
        ("orders", ["a", "b"], False),
    ],
)
async def test_a_batch_may_have_one_key_on_a_partitioned_queue(
    broker: LocalBroker, name: str, keys: list[str | None], is_refused: bool
) -> None:
    batch = [Message(b"", partition_key=key) for key in keys]

    if is_refused:
        with pytest.raises(InvalidOperation):
            check_one_key(broker.queue(name), batch)
    else:
        check_one_key(broker.queue(name), batch)


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("own", "default", "expected"),
    [(None, None, None), (5, None, 5), (None, 7000, 7000), (5, 7000, 5), (9000, 7000, 7000)],
)
async def test_a_message_lives_for_the_shorter_of_its_own_and_the_queues_time(
    tmp_path: Path, clock: ManualClock, own: int | None, default: int | None, expected: int | None
) -> None:
    time_to_live = None if default is None else timedelta(milliseconds=default)
    properties = QueueProperties(default_message_time_to_live=time_to_live)
    message = Message(b"", time_to_live_ms=own)
    async with verbs(tmp_path, clock, [Queue("q", properties)]) as broker:
        set_expiry(broker.queue("q"), [message], NOON)

    assert message.expires_at == (None if expected is None else NOON + expected)


@pytest.mark.parametrize(
    ("properties", "refusal"),
    [
        (QueueProperties(status=EntityStatus.DISABLED), EntityDisabled),
        (QueueProperties(status=EntityStatus.SEND_DISABLED), EntityDisabled),
        (QueueProperties(status=EntityStatus.RECEIVE_DISABLED), None),
        (QueueProperties(requires_session=True), None),
    ],
)
async def test_the_status_of_a_queue_decides_whether_it_can_be_sent_to(
    tmp_path: Path,
    clock: ManualClock,
    properties: QueueProperties,
    refusal: type[Exception] | None,
) -> None:
    async with verbs(tmp_path, clock, [Queue("q", properties)]) as broker:
        if refusal is None:
            check_open_for_send(broker.queue("q"))
        else:
            with pytest.raises(refusal):
                check_open_for_send(broker.queue("q"))


@pytest.mark.spec("R3.6")
async def test_one_key_stays_in_order(broker: LocalBroker, clock: ManualClock) -> None:
    queue = broker.queue("parts")
    await send_each(queue, clock, 12, key="k")

    assert await receive_all(queue, clock) == [(b"%d" % number, 0) for number in range(12)]
