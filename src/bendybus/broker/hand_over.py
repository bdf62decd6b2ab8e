"""hand over: messages of one queue become messages of another entity, each of them once (D7)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bendybus.broker.admit import admit
from bendybus.broker.catalog import Catalog
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.model.errors import BusError, EntityNotFound, ServerBusy
from bendybus.model.forwarding import (
    Undeliverable,
    fragment_at,
    marks_of_forwarded,
    marks_of_transferred,
    why_no_further,
    why_undeliverable,
)
from bendybus.model.ids import FragmentIndex, Instant, SubQueue
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.operations import Forget, Operation, Standing, Transfer
from bendybus.model.sql_values import FilterFailed
from bendybus.store.port import Store

# Transfers that are to be forgotten are told to their store with the next messages for it, or
# when so many have gathered, or when there is nothing else to do.
FORGOTTEN_TOGETHER_MAX: Final = 1000


class Place(NamedTuple):
    """One fragment of one entity."""

    entity: str
    fragment: FragmentIndex


class Parcel(NamedTuple):
    """A message to be handed over: as it is stored, and as it will be."""

    stored: StoredMessage
    message: Message


class Group(NamedTuple):
    """What goes to one place, and how the entities stood by which that was decided."""

    as_of: tuple[Standing, Standing]
    parcels: list[Parcel]


class Destinations:
    """Every entity that messages can be taken to, and what their stores may forget."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._forgettable: dict[Store, list[Transfer]] = {}

    @property
    def changes(self) -> int:
        """Rises whenever messages may be meant for elsewhere than before."""
        return self._catalog.changes

    def is_reachable(self, place: Place) -> bool:
        """Whether trying makes sense now."""
        queue = self._find(place.entity)
        return queue is None or queue.main.sources[place.fragment].store.is_online

    def sort(
        self, batch: Sequence[StoredMessage], sub_queue: ServedSubQueue
    ) -> tuple[dict[Place, Group], list[tuple[StoredMessage, Undeliverable]]]:
        """Say where messages go, keeping their order, and which cannot go and why."""
        groups: dict[Place, Group] = {}
        refused: list[tuple[StoredMessage, Undeliverable]] = []
        is_forwarded = sub_queue.sub_queue is not SubQueue.TRANSFER
        forwards_to = sub_queue.forwards_to or ""
        queues: dict[str, ServedQueue | None] = {}
        for stored in batch:
            name = forwards_to
            if not is_forwarded and stored.marks is not None:
                name = stored.marks.destination or ""
            if name not in queues:
                queues[name] = self._find(name)
            queue = queues[name]
            why = why_undeliverable(stored, name, queue.properties if queue else None)
            if why is None and is_forwarded:
                why = why_no_further(stored, name)
            if why is not None or queue is None:
                assert why is not None, "what is missing is no destination"
                refused.append((stored, why))
                continue
            marks = marks_of_forwarded(stored) if is_forwarded else marks_of_transferred(stored)
            try:
                parcel = Parcel(stored, self._message(stored, marks, queue))
            except FilterFailed as error:
                refused.append((stored, Undeliverable("MessageUnreadable", str(error))))
                continue
            fragment = fragment_at(
                parcel.message,
                stored.sequence,
                len(queue.main.sources),
                has_duplicate_detection=queue.properties.requires_duplicate_detection,
            )
            place = Place(queue.name, fragment)
            group = groups.get(place)
            if group is None:
                as_of = sub_queue.queue.standing, queue.standing
                group = groups[place] = Group(as_of, [])
            group.parcels.append(parcel)
        return groups, refused

    def _message(self, stored: StoredMessage, marks: Marks | None, queue: ServedQueue) -> Message:
        message = Message(stored.content, "", stored.session_id, stored.partition_key, marks=marks)
        if queue.properties.requires_duplicate_detection:
            view = self._catalog.reader.view(message, Instant(stored.enqueued_at))
            message.message_id = str(view.system("MessageId"))
        return message

    async def hand_over(
        self,
        place: Place,
        source: int,
        group: Group,
        now: Instant,
        within_seconds: float | None = None,
    ) -> None:
        """Add messages at a place, durable on return; those that were there before stay as is.

        Raises `BusError` if the place cannot have them now, or soon enough, or is not where they go
        any more; then they all must come again.
        """
        as_of, parcels = group
        queue = self._catalog.queue(place.entity)
        if queue.standing != as_of[1]:
            raise ServerBusy(f"'{place.entity}' was changed just now.")
        target = queue.main.sources[place.fragment]
        store = target.store
        if not store.is_online:
            raise queue.unavailable(target)
        messages = [parcel.message for parcel in parcels]
        for stored, message in parcels:
            # What is left of its time counts on.
            if stored.expires_at is not None:
                message.time_to_live_ms = max(stored.expires_at - now, 0)
        transfers = [Transfer(source, parcel.stored.sequence) for parcel in parcels]
        admission = await admit(queue, target, messages, now, transfers)
        admission.announce()
        operations: list[Operation] = [*admission.operations]
        for operation in admission.operations:
            operation.as_of = as_of
        forgettable = self._forgettable.pop(store, [])
        if forgettable:
            operations.insert(0, Forget(forgettable))
        try:
            await store.apply(operations, now=now, within_seconds=within_seconds)
        except BusError as error:
            self._forgettable.setdefault(store, []).extend(forgettable)
            if isinstance(error, ServerBusy) and await store.prepared():
                # Most likely it is about these entities. Whoever began it may be gone.
                await self._catalog.records.outlast_change()
            raise
        admission.tell()

    def note_departed(self, place: Place, source: int, sequences: Sequence[int]) -> None:
        """Note that messages have left where they came from: their transfers can be forgotten."""
        queue = self._find(place.entity)
        if queue is not None:
            store = queue.main.sources[place.fragment].store
            transfers = [Transfer(source, sequence) for sequence in sequences]
            self._forgettable.setdefault(store, []).extend(transfers)

    async def forget(self, *, least: int, now: Instant) -> None:
        """Tell the stores that have at least so many what they may forget.

        One that cannot be told keeps them, until they are found as left over.
        """
        ready = [store for store, noted in self._forgettable.items() if len(noted) >= least]
        for store in ready:
            noted = self._forgettable.pop(store, [])
            try:
                await store.apply([Forget(noted)], now=now)
            except BusError:
                continue

    def _find(self, name: str) -> ServedQueue | None:
        try:
            return self._catalog.queue(name)
        except EntityNotFound:
            return None
