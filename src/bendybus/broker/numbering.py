"""Gives new entities their numbers, and their fragments their places."""

from collections.abc import Sequence
from typing import Final

from bendybus.model.entity import Queue, Subscription, Topic
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, StoreNumber, SubQueue
from bendybus.model.namespace import Namespace
from bendybus.store.port import EntityRecord, FragmentPlace, NumbersGiven, ParentTopic

_QUEUES_PER_FRAGMENT: Final = len(SubQueue)


class Numbering:
    """Goes on from the highest numbers ever given in each store: none is given again."""

    def __init__(self, given: Sequence[NumbersGiven]) -> None:
        self._queues_taken = [each.queue for each in given]
        self._last_number = max((each.entity for each in given), default=0)

    def copy(self) -> "Numbering":
        """Return one for a trial: what it gives is not taken."""
        tried = Numbering([])
        tried._queues_taken = list(self._queues_taken)
        tried._last_number = self._last_number
        return tried

    def new_record(
        self,
        namespace: str,
        entity: Queue | Topic | Subscription | Namespace,
        *,
        topic: ParentTopic | None = None,
        beside: Sequence[FragmentPlace] = (),
        now: Instant,
        is_declared: bool = False,
    ) -> EntityRecord:
        """Make the first record of an entity; of a subscription, beside the places of its topic."""
        self._last_number += 1
        number = EntityNumber(self._last_number)
        stores = [place.store for place in beside] or self._stores_for(number, entity)
        rules = entity.rules if isinstance(entity, Subscription) and is_declared else None
        return EntityRecord(
            number,
            entity,
            1,
            self._places_in(stores),
            topic,
            rules,
            created_at=now,
            updated_at=now,
            namespace=namespace,
        )

    def _stores_for(
        self, number: EntityNumber, entity: Queue | Topic | Subscription | Namespace
    ) -> list[StoreNumber]:
        """Put each fragment into a store of its own while there are enough of them.

        The first one's store goes on with the entity's number, so that conventional entities
        spread over all stores too.
        """
        assert not isinstance(entity, Subscription), "it lies where its topic lies"
        if isinstance(entity, Namespace):
            return []
        count = len(self._queues_taken)
        return [
            StoreNumber((number - 1 + fragment) % count)
            for fragment in range(entity.properties.fragment_count)
        ]

    def _places_in(self, stores: Sequence[StoreNumber]) -> tuple[FragmentPlace, ...]:
        places: list[FragmentPlace] = []
        for store in stores:
            places.append(FragmentPlace(store, QueueNumber(self._queues_taken[store] + 1)))
            self._queues_taken[store] += _QUEUES_PER_FRAGMENT
        return tuple(places)
