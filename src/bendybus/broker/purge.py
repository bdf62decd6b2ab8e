"""purge: delete many messages at once, unread."""

from dataclasses import dataclass
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.ids import Instant
from bendybus.model.message import MessageState
from bendybus.model.operations import Operation, Purge, Purged

# What one request deletes at most.
PURGED_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class PurgeWish:
    """Which messages: of a state, enqueued until an instant, of a session if one is named.

    A scheduled message counts as enqueued at the time that it is scheduled for.
    """

    count_max: int
    enqueued_until: Instant
    state: MessageState = MessageState.ACTIVE
    session_id: str | None = None


async def purge(sub_queue: ServedSubQueue, wish: PurgeWish, clock: Clock) -> int:
    """Delete messages that are under no lock, the oldest of each fragment first; return how many.

    Fragments whose store is offline are passed over. But if none of the others has any, that is
    refused and not answered with 0: who purges until nothing is left would take it for the end.
    """
    deleted = 0
    away: Source | None = None
    for source in sub_queue.sources:
        if not source.store.is_online:
            away = source
            continue
        deleted += await _purge_in(source, wish, wish.count_max - deleted, clock)
        if deleted >= wish.count_max:
            break
    if away is not None and not deleted:
        raise sub_queue.queue.unavailable(away)
    return deleted


async def _purge_in(source: Source, wish: PurgeWish, count_max: int, clock: Clock) -> int:
    """Delete messages of one fragment, in turns that leave room for others between them."""
    deleted = 0
    at: int | None = 0
    while at is not None and deleted < count_max:
        operation: Operation = Purge(
            source.number,
            wish.state,
            count_max - deleted,
            wish.enqueued_until,
            at,
            wish.session_id,
        )
        [answer] = await source.store.apply([operation], now=clock.now())
        assert isinstance(answer, Purged)
        deleted += answer.deleted
        at = answer.next_sequence
    return deleted
