"""Every write that a store can be told to make: a closed list.

Deciding which one to make is policy and happens in this package; a store only checks that the
locks named are still what the decision took them for (`Guard`), and refuses what would break
its own constraints.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from bendybus.model.ids import EntityNumber, Instant, QueueNumber
from bendybus.model.message import Lock, Marks, Message, MessageState
from bendybus.model.staging import Decision, StagingOperation


class Guard(Enum):
    """What must still be true of a message when the operation reaches it."""

    HELD = "its lock is this one and has not ended"
    LAPSED = "its lock is this one and has ended"
    FREE = "it is under no lock and its time to live has ended"
    SCHEDULED = "it is scheduled for a time that has not come"
    DUE = "it is scheduled for a time that has come"
    UNTOUCHED = "it is active, under no lock, and its delivery count is the lock's"
    SET_ASIDE = "it is deferred and under no lock"
    THERE = "it is there, whoever holds it, and no reader has reserved it"


@dataclass(slots=True)
class Append:
    """Add messages at the end. Answered with the first sequence number; the rest follow on.

    Refused with `QuotaExceeded` when the fragment would hold more than `bytes_max`. A message with
    a `scheduled_at` is kept aside until then, and counts as enqueued at that instant.

    Left out, as if they had not been given, are messages whose id was seen after
    `duplicates_since` (None: nobody looks), and those whose transfer was made before. When that
    leaves none, the answer is 0.

    Transfers are refused with `ServerBusy` when an entity by which their way was chosen stands
    otherwise here than `as_of` says, or is about to.
    """

    queue: QueueNumber
    messages: Sequence[Message]
    bytes_max: int
    duplicates_since: Instant | None = None
    # Of each message where it comes from, when it comes from another queue (D7).
    transfers: Sequence["Transfer"] | None = None
    as_of: Sequence["Standing"] = ()
    # The first of numbers that were taken for the messages, which then lie at those places.
    numbered_from: int | None = None


@dataclass(slots=True)
class TakeNumbers:
    """Give numbers out for messages to come. Answered with the first; the rest follow on.

    Numbers that no `Append` uses leave a gap.
    """

    queue: QueueNumber
    count: int


class Transfer(NamedTuple):
    """Names a message on its way from one queue to another, so that it arrives once.

    `source` is the store and the queue that it comes from, in one number.
    """

    source: int
    sequence: int


class Standing(NamedTuple):
    """How an entity stands: its number, and the version of its record."""

    entity: EntityNumber
    version: int


@dataclass(slots=True)
class Taker:
    """A subscription's queue, and which of the published messages it takes, by their index.

    It takes a message once, in whatever queue; changed copies come beside that.
    """

    queue: QueueNumber
    indexes: Sequence[int]
    # When each of them expires there.
    expiries: Sequence[Instant | None]
    # What the copies begin with, if not with the marks of the messages: why they are dead letters.
    marks: Marks | None = None


@dataclass(slots=True)
class ChangedCopy:
    """A copy of a published message that a rule's action changed: a message of its own."""

    queue: QueueNumber
    index: int
    message: Message


@dataclass(slots=True)
class Publish:
    """Give messages of a topic to its subscriptions, keeping each content once (D6).

    `topic` is the topic's own queue in the fragment: it numbers the messages and counts the bytes
    of all subscriptions. Answered, refused and thinned out like `Append`; what nobody takes is
    left out as well.
    """

    topic: QueueNumber
    messages: Sequence[Message]
    takers: Sequence[Taker]
    changed: Sequence[ChangedCopy]
    bytes_max: int
    duplicates_since: Instant | None = None
    transfers: Sequence[Transfer] | None = None
    as_of: Sequence[Standing] = ()


@dataclass(slots=True)
class Forget:
    """Remember transfers no longer: their messages have left where they came from."""

    transfers: Sequence[Transfer]


@dataclass(slots=True)
class Activate:
    """Put scheduled messages whose time has come at the end of their queue, under new numbers.

    They get them in the order given.
    """

    queue: QueueNumber
    sequences: Sequence[int]


@dataclass(slots=True)
class ForgetSeen:
    """Forget the oldest of the ids that duplicate detection saw until an instant.

    Not all of them at once: answered with when the oldest id still known was seen, 0 if none is.
    """

    queue: QueueNumber
    seen_until: Instant


class Purged(NamedTuple):
    """How many messages a `Purge` deleted, and from where the next goes on; None at the end."""

    deleted: int
    next_sequence: int | None


@dataclass(slots=True)
class Purge:
    """Delete messages of a state that are under no lock, in their order. Answered with `Purged`.

    One looks at a bounded number of messages, so that others get their turn. `enqueued_until` is
    the last instant of enqueueing that is meant; with a session, only its messages are.
    """

    queue: QueueNumber
    state: MessageState
    count_max: int
    enqueued_until: Instant
    from_sequence: int = 0
    session_id: str | None = None


@dataclass(slots=True)
class Remove:
    """Delete messages for good."""

    queue: QueueNumber
    locks: Sequence[Lock]
    guard: Guard = Guard.HELD


@dataclass(slots=True)
class Unlock:
    """Make messages free again, at their old place."""

    queue: QueueNumber
    locks: Sequence[Lock]
    is_counted: bool
    guard: Guard = Guard.HELD


@dataclass(slots=True)
class SetAside:
    """Free messages and defer them: only who knows their sequence number gets them."""

    queue: QueueNumber
    locks: Sequence[Lock]


@dataclass(slots=True)
class Rewrite:
    """Replace the marks of one message; its lock stays."""

    queue: QueueNumber
    lock: Lock
    marks: Marks


@dataclass(slots=True)
class Move:
    """Move one message to the end of another queue of the same store, free and with no expiry."""

    queue: QueueNumber
    to_queue: QueueNumber
    lock: Lock
    marks: Marks
    is_counted: bool
    guard: Guard = Guard.HELD


class Requeued(NamedTuple):
    """A message that is to begin anew elsewhere: as it was looked at, and what it is there."""

    lock: Lock
    marks: Marks | None
    expires_at: Instant | None


@dataclass(slots=True)
class Requeue:
    """Move messages to the end of another queue of the same store, as if never delivered.

    They come there in the order given. One that somebody touched since it was looked at stays
    (`Guard.UNTOUCHED`). Their contents, and when they were enqueued, stay as they are.
    """

    queue: QueueNumber
    to_queue: QueueNumber
    messages: Sequence[Requeued]


@dataclass(slots=True)
class Renew:
    """Let locks last until another time."""

    queue: QueueNumber
    locks: Sequence[Lock]
    locked_until: Instant


@dataclass(slots=True)
class RenewSession:
    """Let a session's lock last until another time. Answered with 1, or 0 if it is not held."""

    queue: QueueNumber
    session_id: str
    nonce: int
    locked_until: Instant


@dataclass(slots=True)
class SetSessionState:
    """Replace a session's state; None clears it. Answered with 1, or 0 if it is not held."""

    queue: QueueNumber
    session_id: str
    nonce: int
    state: bytes | None


@dataclass(slots=True)
class ReleaseSession:
    """End a session's lock; its locked messages are free again, uncounted.

    Answered with 0 if it is not held, and else with 1 and one more for each message that came back.
    """

    queue: QueueNumber
    session_id: str
    nonce: int


@dataclass(slots=True)
class EndLapsedSessions:
    """Free the sessions whose lock has ended and that hold no message any more, up to so many.

    Answered with how many. What they held is freed before, by the rules for messages (`Due`); until
    then nobody can accept them.
    """

    count_max: int


class ReaderPlace(NamedTuple):
    """How far a reader has come: the last of its reservations, and the last it is done with."""

    position: int
    committed: int


@dataclass(slots=True)
class OpenReader:
    """Let whoever has the token use a reader from now on, and nobody else; make it if need be.

    Answered with `ReaderPlace`. What it has reserved goes over to the new token. Under another
    token than the present one it is refused with `ReaderInUse` if it was active after `idle_since`.
    With None for that, it was opened in another fragment at `opened_at`, and is refused with
    `ReaderLost` if it was opened here since.
    """

    queue: QueueNumber
    reader: str
    token: str
    opened_at: Instant
    idle_since: Instant | None
    # Of the queue; refused with `QuotaExceeded` if it would be one more.
    readers_max: int


class Reserved(NamedTuple):
    """Reservations: where the last stands in the order of its reader's, and how much all are."""

    position: int
    messages: int
    bytes: int


@dataclass(slots=True)
class Reserve:
    """Keep messages for a reader: nobody else receives them, and they do not expire.

    The oldest free ones, up to so many and so many bytes, or one that alone is more, and of each
    session none that somebody holds. One reservation, bounded as `model.reader` says, or several
    where that is little work. Answered with `Reserved`. If the reader has one that follows on
    `after`, the answer is that one, and nothing is reserved; if there is nothing to reserve, the
    answer has no messages, and `after` as its position.

    Refused with `ReaderLost` if the token is not the reader's, if it is already done with more than
    `after`, or never came that far.
    """

    queue: QueueNumber
    reader: str
    token: str
    after: int
    count_max: int
    bytes_max: int
    # Only messages with lower numbers than this.
    before: int | None = None
    # Rather none than a part of messages that are kept as one. The answer has no messages then, but
    # how many bytes they are.
    is_whole: bool = False


@dataclass(slots=True)
class ReserveChosen:
    """Keep those of the named messages for a reader that are free, as one new reservation.

    Up to so many bytes, or one message that alone is more. Answered with `Reserved`, which has no
    messages if none is free. Refused like `Reserve`.
    """

    queue: QueueNumber
    reader: str
    token: str
    sequences: Sequence[int]
    bytes_max: int


@dataclass(slots=True)
class CloseReader:
    """Note that a reader is in use no longer: another may open it at once. What it has stays.

    Answered with `ReaderPlace`. Refused like `Reserve`.
    """

    queue: QueueNumber
    reader: str
    token: str


@dataclass(slots=True)
class CommitReserved:
    """Delete the messages of a reader's next reservation, if it lies before or at a position.

    Or of several, where that is little work.

    Answered with the position that the reader is done with now; the rest is for the next turns.
    Refused like `Reserve`.
    """

    queue: QueueNumber
    reader: str
    token: str
    until: int


@dataclass(slots=True)
class GiveBack:
    """Make the messages of a reader's last reservation free, as if they had never been reserved.

    With no reservation left, the reader is forgotten. Answered with `Reserved`, which has no
    messages then. `token` None: whoever has it. From the first turn on `next_token` is the
    reader's, so that who had it before does nothing more.
    """

    queue: QueueNumber
    reader: str
    token: str | None
    next_token: str


Operation = (
    Append
    | TakeNumbers
    | Publish
    | Forget
    | Remove
    | Unlock
    | SetAside
    | Rewrite
    | Move
    | Requeue
    | Renew
    | Activate
    | Purge
    | ForgetSeen
    | RenewSession
    | SetSessionState
    | ReleaseSession
    | EndLapsedSessions
    | StagingOperation
    | OpenReader
    | CloseReader
    | Reserve
    | ReserveChosen
    | CommitReserved
    | GiveBack
)

# The answer to one operation: a number or a tuple where it says so, and for all others the
# sequence numbers of the messages that their guard refused. Empty is the normal case.
Answer = int | list[int] | Purged | Decision | Reserved | ReaderPlace
