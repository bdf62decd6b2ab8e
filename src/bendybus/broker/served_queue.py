"""A queue as the broker serves it: its fragments, where they are, whether they hold anything."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from bendybus.broker.departures import Departures
from bendybus.broker.held_sessions import HeldSessions
from bendybus.broker.receives import Receives
from bendybus.broker.traces import Traces
from bendybus.broker.waiting import Waiting
from bendybus.model.entity import QueueProperties
from bendybus.model.errors import ArgumentOutOfRange, EntityNotFound, StoreUnavailable
from bendybus.model.ids import (
    EntityNumber,
    FragmentIndex,
    Instant,
    QueueNumber,
    SubQueue,
    fragment_of,
)
from bendybus.model.message import Lock, Message
from bendybus.model.operations import Standing
from bendybus.model.packed_messages import session_ids_of
from bendybus.model.partitioning import fragment_for
from bendybus.model.settlement import DeliveryPolicy
from bendybus.store.port import Store

_MEGABYTE: Final = 1024 * 1024
# Ids are kept a little longer than they count, so that many of them are forgotten in one go.
FORGET_LUMP_MS: Final = 2000


class Timetable:
    """When something of a store is due next, as far as this broker knows.

    A hint like the others: the sweep that finds nothing asks the store and corrects it.
    """

    __slots__ = ("_sweeps", "histories", "next_due")

    def __init__(self) -> None:
        self.next_due = Instant(0)
        # Queues whose duplicate detection knows ids, and when some of them can be forgotten.
        self.histories: dict[QueueNumber, Instant] = {}
        self._sweeps: list[asyncio.Future[None]] = []

    def note(self, instant: Instant) -> None:
        """Note a lock, a time to live or a delay that ends then."""
        self.next_due = min(self.next_due, instant)

    def note_history(self, queue: QueueNumber, instant: Instant) -> None:
        """Note that ids seen by a queue can be forgotten then, unless some can be earlier."""
        if queue not in self.histories:
            self.histories[queue] = instant
            self.note(instant)

    def swept(self, now: Instant) -> "asyncio.Future[None]":
        """Ask for a sweep; return what ends when there was one."""
        self.note(now)
        sweep: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sweeps.append(sweep)
        return sweep

    def note_swept(self) -> None:
        """Note that all that was due has been dealt with."""
        sweeps, self._sweeps = self._sweeps, []
        for sweep in sweeps:
            if not sweep.done():
                sweep.set_result(None)


class Source:
    """One sub-queue of one fragment: what a receiver asks for messages.

    `additions` rises whenever a message may have become free here. A receiver that got less than
    it asked for notes the number that it saw before asking; while it has not risen, asking again
    is pointless. It is a hint and lives in memory only.
    """

    __slots__ = (
        "additions",
        "empty_at",
        "fragment",
        "heard_at",
        "number",
        "store",
        "timetable",
    )

    def __init__(
        self, store: Store, timetable: Timetable, number: QueueNumber, fragment: FragmentIndex
    ) -> None:
        self.store = store
        self.timetable = timetable
        self.number = number
        self.fragment = fragment
        self.additions = 0
        self.empty_at = -1
        # What `additions` was when another front end last said so: of how many, nobody said.
        self.heard_at = -1

    def tell(self) -> None:
        """Tell other front ends, if there may be any, that something may have become free."""
        if self.store.is_shared:
            self.store.tell((self.number,))

    @property
    def may_have_messages(self) -> bool:
        """Whether asking makes sense now."""
        return self.empty_at != self.additions and self.store.is_online


class ServedSubQueue:
    """A queue, or its dead-letter queue, over all fragments."""

    def __init__(self, queue: "ServedQueue", sub_queue: SubQueue) -> None:
        self.queue = queue
        self.sub_queue = sub_queue
        self.sources: list[Source] = []
        # Receivers that wait for messages; where there are sessions, for a session.
        self.waiting = Waiting()
        self.receives = Receives()
        self.has_sessions = queue.properties.requires_session and sub_queue is SubQueue.MAIN
        self.held_sessions = HeldSessions()
        self._next_source = 0
        self._departures: Departures | None = None

    @property
    def forwards_to(self) -> str | None:
        """The entity that its messages are forwarded to, if they are."""
        match self.sub_queue:
            case SubQueue.MAIN:
                return self.queue.properties.forward_to
            case SubQueue.DEAD_LETTER:
                return self.queue.properties.forward_dead_lettered_messages_to
            case _:
                return None

    @property
    def is_left(self) -> bool:
        """Whether its messages are taken elsewhere."""
        return self.sub_queue is SubQueue.TRANSFER or self.forwards_to is not None

    def depart_by(self, departures: Departures) -> None:
        """Have its messages taken elsewhere if they are to be; if it forwards, also those here."""
        self._departures = departures if self.is_left else None
        if self.forwards_to is not None:
            for source in self.sources:
                departures.note(source.store, source.number)

    def source_of(self, sequence: int) -> Source | None:
        """Return where a message with that sequence number would be."""
        fragment = fragment_of(sequence)
        return self.sources[fragment] if fragment < len(self.sources) else None

    def sources_at(self, fragments: Collection[int]) -> list[Source]:
        """Return the sources of fragments. Raises `ArgumentOutOfRange` if it has no such."""
        count = len(self.sources)
        for fragment in fragments:
            if not 0 <= fragment < count:
                raise ArgumentOutOfRange(
                    f"'{self.queue.name}' has no fragment {fragment}; it has {count}, from 0 on."
                )
        return [self.sources[fragment] for fragment in fragments]

    def source_of_session(self, session_id: str) -> Source:
        """Return where a session is (R2.1)."""
        return self.sources[fragment_for(session_id, len(self.sources))]

    def candidates(self) -> Iterator[Source]:
        """Yield the sources worth asking, from a different one each time."""
        count = len(self.sources)
        start = self._next_source
        self._next_source = (start + 1) % count
        for step in range(count):
            source = self.sources[(start + step) % count]
            if source.may_have_messages:
                yield source

    def reachable(self, *, skips_offline: bool) -> tuple[list[Source], list[int]]:
        """Return the sources whose store is there, and the fragments of the others.

        Raises `StoreUnavailable` for one of those, unless they are to be skipped; and always if
        no store is there.
        """
        online = [source for source in self.sources if source.store.is_online]
        away = [source for source in self.sources if not source.store.is_online]
        if away and not (skips_offline and online):
            raise self.queue.unavailable(away[0])
        return online, [source.fragment for source in away]

    def note_added(self, source: Source, count: int) -> None:
        """Note that messages became free, and wake receivers for them, wherever they are."""
        self.note_free(source, count)
        source.tell()

    def note_heard(self, source: Source) -> None:
        """Note that messages or sessions may have become free, as other front ends say.

        One receiver is woken; if it finds something, it wakes the next.
        """
        source.additions += 1
        source.heard_at = source.additions
        self.waiting.wake(1)
        if self._departures is not None:
            self._departures.note(source.store, source.number)
        if self.has_sessions:
            self.held_sessions.wake_in_turn()

    def note_free(self, source: Source, count: int) -> None:
        """Note that messages may be free, and wake receivers here for them."""
        source.additions += 1
        self.waiting.wake(count)
        if self._departures is not None:
            self._departures.note(source.store, source.number)
        if self.has_sessions:
            # Nobody said of which sessions.
            self.held_sessions.wake_all()

    def note_arrived(self, source: Source, messages: Sequence[Message]) -> None:
        """Note that messages were sent; wake who holds their session, else who waits for one."""
        if not self.has_sessions:
            self.note_added(source, len(messages))
            return
        source.additions += 1
        free = self.held_sessions.wake(session_ids_of(messages))
        self.waiting.wake(free)
        source.tell()

    def note_returned(self, source: Source, locks: Sequence[Lock], now: Instant) -> None:
        """Note that messages were given back; their time to live may have ended meanwhile."""
        source.timetable.note(now)
        if self.has_sessions:
            self.held_sessions.wake_holders(locks)
        else:
            self.note_added(source, len(locks))

    def note_free_sessions(self, source: Source, count: int) -> None:
        """Note that sessions can be accepted again."""
        source.additions += 1
        self.waiting.wake(count)
        source.tell()

    def policy(self, source: Source) -> DeliveryPolicy:
        """Return what the settlement rules need to know."""
        properties = self.queue.properties
        dead_letters = self.queue.sub_queues[SubQueue.DEAD_LETTER].sources[source.fragment]
        return DeliveryPolicy(
            queue=source.number,
            entity_name=self.queue.name,
            dead_letter_queue=dead_letters.number if self.sub_queue is SubQueue.MAIN else None,
            delivery_count_max=properties.max_delivery_count,
            is_dead_lettered_on_expiry=properties.dead_lettering_on_message_expiration,
        )


class ServedQueue:
    """A queue and all its fragments; also a subscription, and what a topic has of a queue."""

    def __init__(
        self, number: EntityNumber, namespace: str, name: str, properties: QueueProperties
    ) -> None:
        self.number = number
        # The version of its record; its properties are of the same one.
        self.version = 0
        self.namespace = namespace
        self.name = name
        self.is_partitioned = properties.enable_partitioning
        # When it was last used, as far as anybody looked; None if not since the start.
        self.accessed_at: Instant | None = None
        self.set_properties(properties)
        self.sub_queues = {each: ServedSubQueue(self, each) for each in SubQueue}
        # Who writes what happens to its messages into their traces, if anybody does.
        self.traces: Traces | None = None
        self._next_fragment = 0
        self._links = 0
        # Rises with every use, see `note_use`.
        self.uses = 0
        # Whether it was deleted: whoever has it still can do nothing with it.
        self.is_gone = False
        # Whom to tell of changes, and how many links each of them has here.
        self._told: dict[Callable[[], None], int] = {}

    def set_properties(self, properties: QueueProperties) -> None:
        """Behave like this from now on; what is chosen at creation is the same as before."""
        self.properties = properties
        self.lock_duration_ms = round(properties.lock_duration.total_seconds() * 1000)
        time_to_live = properties.default_message_time_to_live
        self.time_to_live_ms = (
            None if time_to_live is None else round(time_to_live.total_seconds() * 1000)
        )
        window = properties.duplicate_detection_history_time_window
        # How long an id counts as seen; None without duplicate detection.
        self.duplicate_window_ms = (
            round(window.total_seconds() * 1000)
            if properties.requires_duplicate_detection
            else None
        )
        self.fragment_bytes_max = properties.max_size_megabytes * _MEGABYTE
        self.message_bytes_max = properties.max_message_size_kilobytes * 1024

    def note_link(self, on_change: Callable[[], None]) -> None:
        """Note that a client's link leads here; it is told when that may be over."""
        self._links += 1
        self.uses += 1
        self._told[on_change] = self._told.get(on_change, 0) + 1

    def note_link_gone(self, on_change: Callable[[], None]) -> None:
        """Note that one of them has ended; until now it was used."""
        self._links -= 1
        self.uses += 1
        self._told[on_change] -= 1
        if not self._told[on_change]:
            del self._told[on_change]

    def note_use(self) -> None:
        """Note that it was used: messages came, a request without a link was done, it changed.

        What goes on by itself is none: locks and lives that end, stores that come back. Nor is it a
        use of a subscription that messages come, for then none that nobody reads would ever go.
        """
        self.uses += 1

    def check_there(self) -> None:
        """Refuse what was deleted since it was found. Raises `EntityNotFound`."""
        if self.is_gone:
            raise EntityNotFound.named(f"sb://{self.namespace}/{self.name}")

    def tell_links(self) -> None:
        """Tell whoever has a link here that the entity has changed, or is gone."""
        for on_change in list(self._told):
            on_change()

    @property
    def is_used(self) -> bool:
        """Whether it is in use now: a link leads here, or what it gets is forwarded."""
        return self._links > 0 or self.main.forwards_to is not None

    @property
    def standing(self) -> Standing:
        """How it stands, for what is decided by it."""
        return Standing(self.number, self.version)

    @property
    def main(self) -> ServedSubQueue:
        """The queue itself, without its dead letters."""
        return self.sub_queues[SubQueue.MAIN]

    @property
    def is_available(self) -> bool:
        """Whether every fragment can be reached."""
        return all(source.store.is_online for source in self.main.sources)

    def place(self, sub_queue: SubQueue, source: Source) -> None:
        """Add a fragment's source; fragments come in order."""
        sources = self.sub_queues[sub_queue].sources
        assert source.fragment == len(sources), "fragments are placed in order"
        sources.append(source)

    def rotation(self) -> Sequence[Source]:
        """Return the fragments in the order in which a keyless send tries them (R2.4)."""
        sources = self.main.sources
        start = self._next_fragment
        self._next_fragment = (start + 1) % len(sources)
        return sources[start:] + sources[:start]

    def duplicates_since(self, source: Source, now: Instant) -> Instant | None:
        """Return since when an id counts as seen, for messages that a fragment is about to take."""
        window = self.duplicate_window_ms
        if window is None:
            return None
        source.timetable.note_history(source.number, Instant(now + window + FORGET_LUMP_MS))
        return Instant(now - window)

    def unavailable(self, source: Source) -> StoreUnavailable:
        """Make the refusal for a fragment whose store is offline (R2.5)."""
        status = source.store.status()
        return StoreUnavailable(
            status.number, status.reason or "offline", entity=self.name, fragment=source.fragment
        )
