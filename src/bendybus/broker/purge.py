"""purge: delete many messages at once, unread."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from bendybus.broker.clock import Clock
from bendybus.broker.look import Stretch, look, source_of
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.content_reader import ContentReader
from bendybus.model.ids import Instant
from bendybus.model.message import Lock, MessageState
from bendybus.model.operations import Guard, Operation, Purge, Purged, Remove
from bendybus.model.selection import Selection

# What one request deletes at most.
PURGED_MAX: Final = 4000
# What must still be true of a message of each state when its turn comes.
_GUARDS: Final = {
    MessageState.ACTIVE: Guard.UNTOUCHED,
    MessageState.DEFERRED: Guard.SET_ASIDE,
    MessageState.SCHEDULED: Guard.SCHEDULED,
}


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


class PurgedPart(NamedTuple):
    """How many were deleted, or would be, of how many; and where to go on, None at the end."""

    deleted: int
    looked_at: int
    locked: int
    next_sequence: int | None


async def purge_selected(
    sub_queue: ServedSubQueue,
    stretch: Stretch,
    selection: Selection,
    reader: ContentReader,
    clock: Clock,
    *,
    is_dry_run: bool,
) -> PurgedPart:
    """Delete the next messages of a stretch that are meant, and that nobody holds."""
    source = source_of(sub_queue, stretch)
    found = await look(source, stretch, selection, reader)
    lost = 0
    if found.chosen and not is_dry_run:
        locks = [Lock(each.sequence, 0, each.delivery_count) for each in found.chosen]
        operation: Operation = Remove(source.number, locks, _GUARDS[selection.state])
        [answer] = await source.store.apply([operation], now=clock.now())
        assert isinstance(answer, list), "a removal is answered with what its guard refused"
        lost = len(answer)
    return PurgedPart(
        len(found.chosen) - lost, found.looked_at, found.locked + lost, found.next_sequence
    )
