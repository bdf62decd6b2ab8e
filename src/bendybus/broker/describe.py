"""describe: what an entity is and how much it holds, added up over its fragments (R7.2)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from bendybus.broker.catalog import Catalog
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.ids import Instant, QueueNumber, SubQueue
from bendybus.store.port import EntityRecord, Store, Tally

_NOTHING: Final = Tally(0, 0, 0, None, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCounts:
    """How many messages an entity holds.

    `active`, `scheduled` and `deferred` are those of the entity itself, locked or not; a topic's
    own are those that are scheduled. The bytes are those of all sub-queues; a subscription's count
    as its topic's.
    """

    active: int = 0
    scheduled: int = 0
    deferred: int = 0
    dead_letter: int = 0
    transfer: int = 0
    transfer_dead_letter: int = 0
    bytes: int = 0

    @property
    def messages(self) -> int:
        """All of them, in whatever sub-queue and state."""
        return (
            self.active
            + self.scheduled
            + self.deferred
            + self.dead_letter
            + self.transfer
            + self.transfer_dead_letter
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """An entity as it stands, and what it holds."""

    record: EntityRecord
    counts: EntityCounts
    # When it was last used, to within seconds; None if not since the broker started.
    accessed_at: Instant | None
    # Whether a store with a fragment of it is away: then what is there is not counted.
    is_limited: bool
    # Of a topic.
    subscription_count: int


async def describe(catalog: Catalog, path: str) -> Description:
    """Describe an entity by its name, or a subscription by its path. Raises `EntityNotFound`."""
    [description] = await describe_all(catalog, [catalog.record(path)])
    return description


async def describe_all(catalog: Catalog, records: Sequence[EntityRecord]) -> list[Description]:
    """Describe many entities, asking every store that is there once.

    Stores that are away, or fail meanwhile, are left out.
    """
    # They may be deleted while the stores are asked.
    served = [catalog.queue(record.name) for record in records]
    wanted: dict[int, list[QueueNumber]] = {}
    for record in records:
        for place in record.places:
            wanted.setdefault(place.store, []).extend(map(place.queue, SubQueue))
    answers = await asyncio.gather(
        *(_tallies(catalog.holdings.stores[store], queues) for store, queues in wanted.items())
    )
    tallies = dict(zip(wanted, answers, strict=True))
    return [
        _description(record, each, tallies) for record, each in zip(records, served, strict=True)
    ]


async def _tallies(store: Store, queues: Sequence[QueueNumber]) -> dict[QueueNumber, Tally] | None:
    if not store.is_online:
        return None
    try:
        return await store.tallies(queues)
    except (StoreUnavailable, StoreFailed):
        return None


def _description(
    record: EntityRecord,
    served: ServedQueue,
    tallies: dict[int, dict[QueueNumber, Tally] | None],
) -> Description:
    counts = [
        _counts({each: held.get(place.queue(each), _NOTHING) for each in SubQueue})
        for place in record.places
        if (held := tallies[place.store]) is not None
    ]
    return Description(
        record=record,
        counts=_sum(counts),
        accessed_at=served.accessed_at,
        is_limited=len(counts) < len(record.places),
        subscription_count=served.subscription_count if isinstance(served, ServedTopic) else 0,
    )


def _counts(held: dict[SubQueue, Tally]) -> EntityCounts:
    main = held[SubQueue.MAIN]
    return EntityCounts(
        active=main.active,
        scheduled=main.scheduled,
        deferred=main.deferred,
        dead_letter=_messages(held[SubQueue.DEAD_LETTER]),
        transfer=_messages(held[SubQueue.TRANSFER]),
        transfer_dead_letter=_messages(held[SubQueue.TRANSFER_DEAD_LETTER]),
        bytes=main.bytes,
    )


def _messages(tally: Tally) -> int:
    return tally.active + tally.scheduled + tally.deferred


def _sum(counts: Sequence[EntityCounts]) -> EntityCounts:
    return EntityCounts(
        **{
            each.name: sum(getattr(fragment, each.name) for fragment in counts)
            for each in fields(EntityCounts)
        }
    )
