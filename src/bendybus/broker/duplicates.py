"""duplicates: ids that were seen too long ago to count are forgotten."""

from collections.abc import Mapping

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import FORGET_LUMP_MS, ServedSubQueue, Source, Timetable
from bendybus.broker.turns import Turns
from bendybus.model.errors import BusError
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.operations import ForgetSeen, Operation
from bendybus.store.port import Store


async def forget_seen(
    store: Store,
    places: Mapping[QueueNumber, tuple[ServedSubQueue, Source]],
    timetable: Timetable,
    clock: Clock,
    turns: Turns,
) -> None:
    """Forget what the queues of a store need not know any more, in bounded turns."""
    now = clock.now()
    for queue, forgettable_at in list(timetable.histories.items()):
        if forgettable_at > now:
            continue
        # Taken out first: what is seen from here on notes itself again.
        del timetable.histories[queue]
        if queue not in places:
            continue  # Its entity was retired; what it knows goes with it.
        # Without a window nothing is looked up, and all of it can go.
        window = places[queue][0].queue.duplicate_window_ms or 0
        try:
            oldest = await _forget(store, queue, Instant(now - window), now, turns)
        except BusError:
            timetable.note_history(queue, now)
            raise
        if oldest:
            timetable.note_history(queue, Instant(oldest + window + FORGET_LUMP_MS))
    if timetable.histories:
        timetable.note(min(timetable.histories.values()))


async def _forget(
    store: Store, queue: QueueNumber, seen_until: Instant, now: Instant, turns: Turns
) -> int:
    """Forget, turn by turn; return when the oldest that is left was seen, 0 if none is."""
    operations: list[Operation] = [ForgetSeen(queue, seen_until)]
    oldest = 0

    async def forget_some(_: int) -> bool:
        nonlocal oldest
        # How many ids are one turn is the store's to say: they are smaller than messages.
        [answer] = await store.apply(operations, now=now)
        assert isinstance(answer, int)
        oldest = answer
        return 0 < oldest <= seen_until

    await turns.take(forget_some)
    return oldest
