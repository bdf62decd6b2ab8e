"""clear arrived: what has arrived elsewhere leaves its queue, before messages go another way (D7).

A message that has arrived may still be where it came from: a crash, or a store that failed, came
between. While its way is the same, to try again does no harm. So this is done whenever a way is
about to change, when the change is prepared in every store and put in none:

1. All stores are there, or there would be no change (R7.1).
2. None of them takes another message by the way that ends: not while the change is prepared, and
   not after it was put, from whoever does not know it yet (`Append.as_of`).
3. So what they remember now is all that ever arrived by it. It is removed where it came from, and
   no message that goes the new way, or stays for receivers, is one of these.

Cut off anywhere, the change is undone, and the old way is tried again.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final, NamedTuple

from bendybus.model.entity import Queue, Subscription, Topic
from bendybus.model.errors import EntityNotFound
from bendybus.model.forwarding import place_of, source_of, takes_less, ways_left
from bendybus.model.ids import Instant
from bendybus.model.message import Lock
from bendybus.model.operations import Guard, Remove, Transfer
from bendybus.store.port import EntityRecord, Store

# How many transfers a store is asked for at once.
COUNT_MAX: Final = 500
WHENEVER: Final = Instant(1 << 62)
# Removing what is there, whatever its state, asks for no time.
NO_TIME: Final = Instant(0)
SOURCES_END: Final = 1 << 62


class Change(NamedTuple):
    """An entity as it stands, and as it is about to."""

    before: EntityRecord
    after: EntityRecord


class _Look(NamedTuple):
    """A store that may remember transfers, and from which sources they may be."""

    store: Store
    first: int
    end: int


async def clear_arrived(stores: Sequence[Store], changes: Sequence[Change]) -> None:
    """Remove what has arrived by the ways that end with these changes. Raises `BusError`."""
    looks = {look for change in changes for look in _looks(stores, change)}
    # All come to their end, also if one fails.
    ends = await asyncio.gather(*(_clear(stores, each) for each in looks), return_exceptions=True)
    for failure in ends:
        if failure is not None:
            raise failure


def _looks(stores: Sequence[Store], change: Change) -> Iterator[_Look]:
    """Yield where to look for what has arrived by ways that a change ends."""
    before, after = change.before.entity, change.after.entity
    if isinstance(before, Queue | Subscription) and isinstance(after, Queue | Subscription):
        for sub_queue in ways_left(before.properties, after.properties):
            for place in change.before.places:
                source = source_of(place.store, place.queue(sub_queue))
                yield from (_Look(store, source, source + 1) for store in stores)
    if _takes_less(change):
        # From wherever it came: a transaction sends to anything.
        yield from (_Look(stores[each.store], 0, SOURCES_END) for each in change.before.places)


def _takes_less(change: Change) -> bool:
    before, after = change.before.entity, change.after.entity
    if isinstance(before, Queue | Topic) and isinstance(after, Queue | Topic):
        return change.after.is_removed or takes_less(before.properties, after.properties)
    return False


async def _clear(stores: Sequence[Store], look: _Look) -> None:
    """Remove what a store remembers to have got where it came from."""
    page = [Transfer(look.first, -1)]
    while page:
        found = await look.store.transfers(after=page[-1], made_until=WHENEVER, count_max=COUNT_MAX)
        page = [each for each in found if each.source < look.end]
        for source, transfers in groupby(page, key=lambda each: each.source):
            number, queue = place_of(source)
            if number >= len(stores):
                continue  # It was taken out of the configuration, with all that it has.
            removal = Remove(queue, [Lock(each.sequence, 0) for each in transfers], Guard.THERE)
            # What was deleted since has nothing any more.
            with suppress(EntityNotFound):
                await stores[number].apply([removal], now=NO_TIME)
