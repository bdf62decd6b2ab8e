"""The seam between the broker and the databases that keep its messages.

A store holds fragments of many entities. It applies what the broker decided and judges nothing.
`bendybus.testing.store_contract` checks every promise below against every store.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from bendybus.model.access import AccessRule
from bendybus.model.entity import Queue, Subscription, Topic, subscription_path
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, StoreNumber, SubQueue
from bendybus.model.message import Lock, Marks, StoredMessage
from bendybus.model.namespace import Namespace
from bendybus.model.operations import Answer, Guard, Operation, Transfer
from bendybus.model.rule import Rule
from bendybus.model.scanned import Scanned
from bendybus.store.readers import ReaderStore
from bendybus.store.scan import Scan
from bendybus.store.sharing import Sharing
from bendybus.store.stages import StagingStore
from bendybus.store.switch import StoreSwitch

# The end of a lock that lasts as long as its store is open (promise 10).
UNTIL_REOPENED: Final = Instant(1 << 61)
_BEGINNING: Final = Instant(0)


@dataclass(frozen=True, slots=True)
class Acquire:
    """A wish to lock messages: at most this many, and at most these bytes unless one alone is more.

    The nonce is any signed 64-bit number that was not used before. With a session, it is the one
    under which the session was accepted, and `locked_until` the end of that lock as the caller
    knows it: the messages stay locked as long as the session is.
    """

    queue: QueueNumber
    count_max: int
    bytes_max: int
    locked_until: Instant
    nonce: int
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class AcquireDeferred:
    """A wish to lock deferred messages, named by their sequence numbers.

    With a session: only messages of it, and as `Acquire` says.
    """

    queue: QueueNumber
    sequences: Sequence[int]
    locked_until: Instant
    nonce: int
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class AcceptSession:
    """A wish to lock a session: the named one, or of those with a free message the next.

    The next is the one that has waited longest since it got its first message or was released.
    """

    queue: QueueNumber
    session_id: str | None
    locked_until: Instant
    nonce: int


class SessionRefusal(Enum):
    """Why no session was accepted."""

    NONE_WAITS = "no free session has a message"
    IS_LOCKED = "somebody holds it"
    HAS_LAPSED = "its lock has ended, and what it held must be freed first; sweep and ask again"
    ASK_AGAIN = "many that seemed to have a message had none any more; there may be others"


class SessionCursor(NamedTuple):
    """Where a listing of sessions goes on: behind this one, and when its state was set if asked."""

    session_id: str
    state_set_at: int


class SessionPage(NamedTuple):
    """Some ids of sessions, and where the next ones begin; None when there are no more."""

    ids: list[str]
    following: SessionCursor | None


class Due(NamedTuple):
    """A message whose lock, time to live or delay has ended; `guard` says which."""

    queue: QueueNumber
    lock: Lock
    guard: Guard
    marks: Marks | None


@dataclass(frozen=True, slots=True)
class FragmentPlace:
    """Where one fragment lives: a store, and four queues there, numbered on from the first."""

    store: StoreNumber
    first_queue: QueueNumber

    def queue(self, sub_queue: SubQueue) -> QueueNumber:
        """Return the number of one of the four."""
        return QueueNumber(self.first_queue + sub_queue)


class NumbersGiven(NamedTuple):
    """The highest numbers that a store has ever given to an entity and to a queue."""

    entity: int
    queue: int


# Stands between the name of an entity that was removed and its number; in no name otherwise.
REMOVED: Final = "#"
# Where the records of namespaces are kept that were made in use: no name of one.
NAMESPACES: Final = "$namespaces"


class ParentTopic(NamedTuple):
    """The topic that a subscription belongs to."""

    number: EntityNumber
    name: str


@dataclass(frozen=True, slots=True)
class EntityRecord:
    """An entity as it stands in a store's copy of the catalog; or a namespace, with no places.

    It names the places of all fragments, so that with one store away the others still tell
    what it holds. A topic's subscriptions have records of their own. Each fragment of theirs lies
    in the store of the topic's, whose main queue counts the bytes of both.
    """

    number: EntityNumber
    entity: Queue | Topic | Subscription | Namespace
    version: int
    places: tuple[FragmentPlace, ...]
    # Of a subscription, and only of one.
    topic: ParentTopic | None = None
    # The rules that a configuration last gave it; others may have changed them since.
    declared_rules: tuple[Rule, ...] | None = None
    # It is no longer served, and goes as soon as all its messages are deleted.
    is_removed: bool = False
    created_at: Instant = _BEGINNING
    # When it was last changed, its rules included.
    updated_at: Instant = _BEGINNING
    # The namespace that it belongs to; empty in records from a time when there was only one. If it
    # was made in use, the key of its record: another of that name has nothing of what it had.
    namespace: str = ""

    @property
    def name(self) -> str:
        """The name by which clients address it. A removed one leaves its name to others."""
        return self.key if self.is_removed else self.key.rpartition(REMOVED)[0]

    @property
    def key(self) -> str:
        """A name that no other record ever has."""
        name = self.entity.name
        path = name if self.topic is None else subscription_path(self.topic.name, name)
        return f"{path}{REMOVED}{self.number}"

    @property
    def messaging_entity(self) -> Queue | Topic | Subscription:
        """What clients exchange messages with; a record of a namespace has none."""
        assert not isinstance(self.entity, Namespace), "whoever asks has found it in a namespace"
        return self.entity


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How much one sub-queue of one fragment holds. Bytes are counted on the main one for all."""

    messages: int
    bytes: int


class Tally(NamedTuple):
    """How many messages one sub-queue of one fragment holds, by state, and how old they are.

    Active ones are those that are neither scheduled nor deferred, locked or not, reserved or not.
    """

    active: int
    scheduled: int
    deferred: int
    # When the oldest one came that could be received now; None if there is none. Where messages are
    # received by session, only the oldest hundred are looked at.
    oldest_at: Instant | None
    # Counted on the main one for all four.
    bytes: int
    # How many of the active ones readers keep for themselves.
    reserved: int = 0


class QueueExtent(NamedTuple):
    """How much a queue holds, the last number that it has given out, and its oldest.

    The oldest is the number of the first message that is there; of an empty queue, of the next.
    """

    messages: int
    bytes: int
    last_sequence: int
    first_sequence: int


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """The access rules of a namespace itself."""

    namespace: str
    version: int
    rules: tuple[AccessRule, ...]


class MessageStore(Protocol):
    """Keeps messages.

    Promises:

    1. `apply` writes all operations of a call or none, and they are durable when it returns.
       (Renewals, `Forget`, the end of a session's lock, and an unlock because a lock has ended,
       are not synced by themselves: like locks, they may be undone by a crash.)
    2. A message is under at most one valid lock at any instant.
    3. Time is an argument; a store never reads a clock.
    4. Policy is the caller's; a store checks guards and constraints, it does not judge.
    5. Sequence numbers of a queue rise by one, from 1, and none is given twice, ever. Those that
       were taken and never used leave a gap.
    6. `acquire` returns the oldest free messages, oldest first, and none whose time to live has
       ended. It never waits for messages.
    7. A message whose bytes changed on disk is never returned; it is set aside, once, and the
       others go on. It is still counted, because it still takes room.
    8. One caller's refusal never harms another whose call was committed together with it.
    9. When the database fails, every call under way raises, and so does every later one at once
       (`StoreUnavailable`), until the store is online again. A call that may have been written
       raises `StoreFailed` instead; the caller must not repeat it elsewhere.
    10. A lock until `UNTIL_REOPENED` never ends by time, and is gone when the store is opened
        again: so the broker's own tasks hold messages no longer than they live, and need not
        hurry.
    11. A message of a transfer that is remembered, from the commit that added it until `Forget`, is
        left out. It is refused if an entity on its way stands otherwise here, or is prepared to.
    12. `figures` count what was committed since the broker started, each message once, and nothing
        that was refused or undone.
    13. What is staged is not there for anybody, until its chunk is dropped and its messages are
        added by one `apply`. A chunk can be dropped once, and of several decisions for a batch
        the first holds.
    14. What a reader has reserved nobody else receives, changes or deletes, and it does not expire,
        until the reader commits it or gives it back, or the queue is deleted. It reads back the
        same any number of times, over restarts.
    15. Where several front ends share a store, all this holds of what they do together: whatever
        one has committed, the others act upon from their next commit on.

    A call is under way when it returns its awaitable, not only when that is awaited. Cancelling
    it leaves it done or not done, never half: so a cancelled `acquire` may leave locks behind that
    nobody holds. Whoever cannot wait for them must keep the awaitable and give them back.

    A queue that is not here is refused with `EntityNotFound`; a message that is not in the queue,
    or whose number belongs to another fragment, is answered as lost.
    """

    def apply(
        self,
        operations: Sequence[Operation],
        *,
        now: Instant,
        is_strict: bool = False,
        within_seconds: float | None = None,
    ) -> Awaitable[list[Answer]]:
        """Write a batch atomically; one answer per operation.

        Strict: a message that its guard refuses undoes the whole batch, with `MessageLockLost`.
        If it cannot be begun within a time that is given, it is not made: `ServerBusy`.
        """
        ...

    def acquire(self, request: Acquire, *, now: Instant) -> Awaitable[list[StoredMessage]]:
        """Lock free messages."""
        ...

    def acquire_deferred(
        self, request: AcquireDeferred, *, now: Instant
    ) -> Awaitable[list[StoredMessage]]:
        """Lock those of the messages that are deferred and under no lock; they stay deferred."""
        ...

    def find_locked(
        self, queue: QueueNumber, locks: Sequence[Lock], *, now: Instant
    ) -> Awaitable[list[StoredMessage]]:
        """Return those of the messages whose lock is held at `now`."""
        ...

    def browse(
        self,
        queue: QueueNumber,
        *,
        from_sequence: int,
        count_max: int,
        bytes_max: int,
        session_id: str | None = None,
    ) -> Awaitable[list[StoredMessage]]:
        """Read messages in order without touching them; at least one if there is one."""
        ...

    def scan(self, request: Scan) -> Awaitable[Scanned]:
        """Read many messages as columns, without touching them.

        What is committed while it runs may be missing. There may be more although nothing was
        found, as `next_sequence` tells. It keeps nobody else waiting.
        """
        ...

    def find(self, queue: QueueNumber, sequences: Sequence[int]) -> Awaitable[list[StoredMessage]]:
        """Read those of the messages that are there, whatever their state."""
        ...

    def accept_session(
        self, request: AcceptSession, *, now: Instant
    ) -> Awaitable[str | SessionRefusal]:
        """Lock a session and return its id. One that was named need not have any messages."""
        ...

    def session_state(
        self, queue: QueueNumber, session_id: str, nonce: int, *, now: Instant
    ) -> Awaitable[bytes | None]:
        """Return a session's state. Raises `SessionLockLost` if the lock is not held."""
        ...

    def sessions(
        self,
        queue: QueueNumber,
        *,
        changed_since: Instant | None,
        after: SessionCursor | None,
        count_max: int,
    ) -> Awaitable[SessionPage]:
        """Look at so many sessions in order, and return the ids of those that are meant.

        Those whose state was set after an instant; with None, all that have active messages or a
        state.
        """
        ...

    def due(self, *, now: Instant, count_max: int) -> Awaitable[list[Due]]:
        """Return messages whose lock, time to live or delay has ended, the longest due first."""
        ...

    def next_due(self) -> Awaitable[Instant | None]:
        """Return when `due` will find something, if nothing changes until then; None for never."""
        ...

    def transfers(
        self, *, after: Transfer, made_until: Instant, count_max: int
    ) -> Awaitable[list[Transfer]]:
        """Return transfers that are remembered and not younger, in order, beginning behind one."""
        ...

    def occupied(self, sub_queue: SubQueue) -> Awaitable[list[QueueNumber]]:
        """Return the queues of one kind that hold messages. For start-up: it looks at them all."""
        ...

    def counts(self, queue: QueueNumber) -> Awaitable[QueueCounts]:
        """Count what a queue holds."""
        ...

    def tallies(
        self, queues: Sequence[QueueNumber] | None = None
    ) -> Awaitable[dict[QueueNumber, Tally]]:
        """Count by state what queues hold; of all of them, with None.

        Its work is bounded by the number of queues, not by that of messages. A queue that is not
        here is left out.
        """
        ...

    def extent(self, queue: QueueNumber) -> Awaitable[QueueExtent]:
        """Say how many messages a queue holds, and where it ends now."""
        ...

    def locked(self) -> Awaitable[dict[QueueNumber, int]]:
        """Count locked messages by queue; where there are very many, some are not counted."""
        ...


class EntityStore(Protocol):
    """Keeps a copy of the catalog of all namespaces. Durable when a call returns."""

    def entities(self) -> Awaitable[list[EntityRecord]]:
        """Return every entity known here."""
        ...

    def versions(self) -> Awaitable[dict[EntityNumber, int]]:
        """Return the version of every entity known here, which is much less than all of them."""
        ...

    def prepare(self, records: Sequence[EntityRecord]) -> Awaitable[None]:
        """Note entities as they are about to be put, in place of what was noted before.

        Raises as `put_entities` would. None at all: nothing is about to be put any more. Where
        others share the store nothing takes the place of what is noted, nor of what is as new:
        `ServerBusy`.
        """
        ...

    def prepared(self) -> Awaitable[list[EntityRecord]]:
        """Return what was noted and not put."""
        ...

    def put_entities(
        self, records: Sequence[EntityRecord], *, is_prepared: bool = False
    ) -> Awaitable[None]:
        """Create or replace entities, and make queues for the fragments that live here.

        All or none. A topic comes before its subscriptions. Raises `EntityExists` if a name or a
        queue belongs to another entity. What was noted by `prepare` is forgotten. With
        `is_prepared` they must be what was noted last, or `ServerBusy` is raised.
        """
        ...

    def numbers_given(self) -> Awaitable[NumbersGiven]:
        """Return the highest numbers ever given here, so that none is given again."""
        ...

    def remove_entity(self, number: EntityNumber, *, count_max: int) -> Awaitable[bool]:
        """Delete so many messages of an entity, and it when it has none; say whether it is gone."""
        ...


class AccessStore(Protocol):
    """Keeps a copy of the access rules of namespaces. Durable when a call returns."""

    def access(self) -> Awaitable[list[AccessRecord]]:
        """Return the rules of every namespace known here."""
        ...

    def put_access(self, record: AccessRecord) -> Awaitable[None]:
        """Write the rules of a namespace, unless newer ones are here."""
        ...


class Store(
    MessageStore,
    ReaderStore,
    StagingStore,
    EntityStore,
    AccessStore,
    StoreSwitch,
    Sharing,
    Protocol,
):
    """All of a store, as the broker gets it."""

    @property
    def is_online(self) -> bool:
        """Whether calls are served now."""
        ...

    @property
    def openings(self) -> int:
        """How often it went online. A change tells that it was away, however shortly."""
        ...

    @property
    def commits(self) -> int:
        """How often it has committed. A change tells that somebody uses it."""
        ...
