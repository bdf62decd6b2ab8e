"""describe: what an entity is and how much it holds, added up over its fragments (R7.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

from bendybus.broker.catalog import Catalog
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedTopic
from bendybus.broker.tallying import Tallies
from bendybus.model.ids import Instant, QueueNumber, SubQueue
from bendybus.store.port import EntityRecord, Tally


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
    """Describe many entities, asking every store that is there at most once.

    Stores that are away, or fail meanwhile, are left out.
    """
    # They may be deleted while the stores are asked.
    served = [catalog.queue(record.name) for record in records]
    wanted: dict[int, list[QueueNumber]] = {}
    for record in records:
        for place in record.places:
            wanted.setdefault(place.store, []).extend(map(place.queue, SubQueue))
    tallies = await catalog.holdings.tallying.tallies(wanted)
    return [
        _description(record, each, tallies) for record, each in zip(records, served, strict=True)
    ]


def _description(record: EntityRecord, served: ServedQueue, tallies: Tallies) -> Description:
    there = [(place, held) for place in record.places if (held := tallies[place.store]) is not None]
    added = {
        each: _added(
            [held[place.queue(each)] for place, held in there if place.queue(each) in held]
        )
        for each in SubQueue
    }
    main = added[SubQueue.MAIN]
    return Description(
        record=record,
        counts=EntityCounts(
            active=main.active,
            scheduled=main.scheduled,
            deferred=main.deferred,
            dead_letter=_messages(added[SubQueue.DEAD_LETTER]),
            transfer=_messages(added[SubQueue.TRANSFER]),
            transfer_dead_letter=_messages(added[SubQueue.TRANSFER_DEAD_LETTER]),
            bytes=main.bytes,
        ),
        accessed_at=served.accessed_at,
        is_limited=len(there) < len(record.places),
        subscription_count=served.subscription_count if isinstance(served, ServedTopic) else 0,
    )


def _added(tallies: Sequence[Tally | None]) -> Tally:
    """Add up one sub-queue over all fragments that are there."""
    active, scheduled, deferred, total = 0, 0, 0, 0
    for each in filter(None, tallies):
        active += each.active
        scheduled += each.scheduled
        deferred += each.deferred
        total += each.bytes
    return Tally(active, scheduled, deferred, None, total)


def _messages(tally: Tally) -> int:
    return tally.active + tally.scheduled + tally.deferred
