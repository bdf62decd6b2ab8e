"""send via: messages wait in the transfer queue of the entity in between."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.send_via import send_via
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.errors import QuotaExceeded, StoreUnavailable
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Message, StoredMessage
from bendybus.model.partitioning import fragment_for
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.serving_verbs import verbs

pytestmark = pytest.mark.spec("R5.6")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with verbs(tmp_path, clock) as running:
        yield running


async def _waiting(via: ServedQueue) -> dict[int, list[StoredMessage]]:
    """Return what waits in the transfer queue, by fragment."""
    found = {
        source.fragment: await source.store.browse(
            source.number, from_sequence=0, count_max=100, bytes_max=1 << 20
        )
        for source in via.sub_queues[SubQueue.TRANSFER].sources
        if source.store.is_online
    }
    return {fragment: messages for fragment, messages in found.items() if messages}


async def test_a_key_chooses_the_fragment_in_between(
    broker: LocalBroker, clock: ManualClock
) -> None:
    parts, orders = broker.queue("parts"), broker.queue("orders")
    for _ in range(3):
        await send_via(parts, "k", orders, [Message(b"a")], clock)
    [(fragment, messages)] = (await _waiting(parts)).items()
    assert fragment == fragment_for("k", 16)
    assert [each.marks.destination for each in messages if each.marks] == ["orders"] * 3


async def test_without_a_key_the_fragments_take_turns(
    broker: LocalBroker, clock: ManualClock
) -> None:
    parts = broker.queue("parts")
    for _ in range(16):
        await send_via(parts, None, broker.queue("orders"), [Message(b"a")], clock)
    assert len(await _waiting(parts)) == 16


async def test_a_fragment_that_is_away_or_full_is_passed_over(
    broker: LocalBroker, clock: ManualClock
) -> None:
    parts, orders = broker.queue("parts"), broker.queue("orders")
    away = parts.main.sources[0].store
    await away.take_offline("drill")
    for _ in range(16):
        await send_via(parts, None, orders, [Message(b"a")], clock)
    assert sum(map(len, (await _waiting(parts)).values())) == 16

    parts.fragment_bytes_max = 1
    with pytest.raises((QuotaExceeded, StoreUnavailable)):
        await send_via(parts, None, orders, [Message(b"a")], clock)


async def test_a_key_is_not_moved_elsewhere(broker: LocalBroker, clock: ManualClock) -> None:
    parts = broker.queue("parts")
    source = parts.main.sources[fragment_for("k", 16)]
    await source.store.take_offline("drill")
    with pytest.raises(StoreUnavailable, match="which holds fragment"):
        await send_via(parts, "k", broker.queue("orders"), [Message(b"a")], clock)


async def test_the_time_to_live_begins_when_a_scheduled_message_is_due(
    broker: LocalBroker, clock: ManualClock
) -> None:
    later = Instant(NOON + 60_000)
    messages = [
        Message(b"now", time_to_live_ms=1000),
        Message(b"later", time_to_live_ms=1000, scheduled_at=later),
    ]
    await send_via(broker.queue("orders"), None, broker.queue("parts"), messages, clock)
    [found] = (await _waiting(broker.queue("orders"))).values()
    assert [each.expires_at for each in found] == [NOON + 1000, NOON + 61_000]
