"""Judges what clients saw of a queue while its broker was killed: a pure function over their log.

The log has one entry for each thing that a client did or was told, in the order in which that
happened to it. The rules:

1. Nothing is lost. A message whose send was acknowledged is still there at the end, or somebody
   asked for its completion. (Asked, not confirmed: a broker that dies between the commit and the
   answer has completed it, and only the client's word is left.)
2. Nothing completed comes back. After a completion was confirmed that copy is neither received
   nor still there. The clients must read what is sent to them within the time of a lock; then no
   delivery from before the completion can be read after it.
3. Nothing doubles. There are at most as many copies of a message as times it was sent: a client
   that sends again what was not acknowledged may make a second one, nobody else may.
4. Nothing appears. Whatever is received was sent.
5. A sequence number names one message, for ever.
6. One key, one fragment, also after a restart.
7. Messages of one key are kept in the order in which they were sent: their sequence numbers rise.
   For messages sent once; one that was sent again has more than one place in the order.
8. A receiver gets messages of one key in that order, among those that come with a delivery count
   of zero. The others it may get late, as this shows: receivers take the oldest free message, so
   an older one that was not taken was under a lock. A lock that the kill left behind ends by
   itself, and that is counted; so whoever comes late for that reason comes with a count above
   zero. (A message also becomes free, uncounted, when it is released, or when its receiver's
   connection ends while the broker lives. The clients of a log must do neither.) Between two
   receivers no order can be seen: what one was given first it may report last.
9. Nothing is completed twice. Of all who were given a copy at most one is told that it is done:
   the others' locks had ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from bendybus.model.ids import fragment_of


@dataclass(frozen=True, slots=True)
class Sent:
    """A client sent a message; a key of None promises no order."""

    message: str
    key: str | None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker accepted it."""

    message: str


@dataclass(frozen=True, slots=True)
class Received:
    """A receiver was given a copy."""

    message: str
    sequence: int
    delivery_count: int
    receiver: str


@dataclass(frozen=True, slots=True)
class CompletionAsked:
    """A receiver asked the broker to complete a copy."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Completed:
    """The broker confirmed the completion."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Left:
    """A copy is still there at the end, in the queue or among its dead letters.

    The sequence number is the one that it was sent under.
    """

    message: str
    sequence: int


Entry = Sent | Acknowledged | Received | CompletionAsked | Completed | Left


class Rule(Enum):
    """What the broker promised, numbered as above."""

    NOTHING_IS_LOST = 1
    NOTHING_COMPLETED_COMES_BACK = 2
    NOTHING_DOUBLES = 3
    NOTHING_APPEARS = 4
    A_NUMBER_NAMES_ONE_MESSAGE = 5
    ONE_KEY_ONE_FRAGMENT = 6
    KEPT_IN_ORDER = 7
    RECEIVED_IN_ORDER = 8
    NOTHING_IS_COMPLETED_TWICE = 9


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and by which message."""

    rule: Rule
    message: str
    text: str


def check_history(log: Sequence[Entry]) -> list[Violation]:
    """Return every violation; an empty list is what the broker promises. One queue, one log."""
    copies = _copies(log)
    return [
        *_lost(log, copies),
        *_come_back(log),
        *_doubled(log, copies),
        *_misnamed(log),
        *_misplaced(log, copies),
        *_received_out_of_order(log),
        *_completed_twice(log, copies),
    ]


def _copies(log: Iterable[Entry]) -> dict[int, str]:
    """Return the message that each sequence number was seen to name first."""
    copies: dict[int, str] = {}
    for entry in log:
        if isinstance(entry, Received | Left):
            copies.setdefault(entry.sequence, entry.message)
    return copies


def _lost(log: Sequence[Entry], copies: dict[int, str]) -> Iterator[Violation]:
    kept = {entry.message for entry in log if isinstance(entry, Left)}
    kept |= {copies[entry.sequence] for entry in log if isinstance(entry, CompletionAsked)}
    for entry in log:
        if isinstance(entry, Acknowledged) and entry.message not in kept:
            yield Violation(Rule.NOTHING_IS_LOST, entry.message, "acknowledged, then gone")


def _come_back(log: Iterable[Entry]) -> Iterator[Violation]:
    completed: set[int] = set()
    for entry in log:
        if isinstance(entry, Completed):
            completed.add(entry.sequence)
        elif isinstance(entry, Received | Left) and entry.sequence in completed:
            what = "received" if isinstance(entry, Received) else "still there"
            yield Violation(
                Rule.NOTHING_COMPLETED_COMES_BACK,
                entry.message,
                f"{what} as {entry.sequence:#x} though its completion was confirmed",
            )


def _doubled(log: Iterable[Entry], copies: dict[int, str]) -> Iterator[Violation]:
    sent: dict[str, int] = {}
    for entry in log:
        if isinstance(entry, Sent):
            sent[entry.message] = sent.get(entry.message, 0) + 1
    found: dict[str, int] = {}
    for message in copies.values():
        found[message] = found.get(message, 0) + 1
    for message, count in found.items():
        times = sent.get(message, 0)
        if times == 0:
            yield Violation(Rule.NOTHING_APPEARS, message, "never sent")
        elif count > times:
            text = f"{count} copies, sent {times} times"
            yield Violation(Rule.NOTHING_DOUBLES, message, text)


def _misnamed(log: Iterable[Entry]) -> Iterator[Violation]:
    names: dict[int, str] = {}
    for entry in log:
        if isinstance(entry, Received | Left):
            first = names.setdefault(entry.sequence, entry.message)
            if first != entry.message:
                text = f"{entry.sequence:#x} was {first} before"
                yield Violation(Rule.A_NUMBER_NAMES_ONE_MESSAGE, entry.message, text)


def _misplaced(log: Iterable[Entry], copies: dict[int, str]) -> Iterator[Violation]:
    """Check where the messages of each key are kept: one fragment, numbers that rise."""
    sequences = {message: sequence for sequence, message in copies.items()}
    for key, messages in _sent_once(log).items():
        latest = fragment = -1
        for message in messages:
            sequence = sequences.get(message)
            if sequence is None:
                continue
            if fragment not in (-1, fragment_of(sequence)):
                text = f"key {key} was in fragment {fragment}, and is in {fragment_of(sequence)}"
                yield Violation(Rule.ONE_KEY_ONE_FRAGMENT, message, text)
            elif sequence <= latest:
                text = f"{sequence:#x} comes before {latest:#x}, which was sent earlier"
                yield Violation(Rule.KEPT_IN_ORDER, message, text)
            latest, fragment = sequence, fragment_of(sequence)


def _received_out_of_order(log: Iterable[Entry]) -> Iterator[Violation]:
    places = {
        message: (key, at)
        for key, messages in _sent_once(log).items()
        for at, message in enumerate(messages)
    }
    latest: dict[tuple[str, str], int] = {}
    for entry in log:
        if not isinstance(entry, Received) or entry.delivery_count or entry.message not in places:
            continue
        key, at = places[entry.message]
        before = latest.get((entry.receiver, key), -1)
        if at <= before:
            text = f"received by {entry.receiver} after one of key {key} that was sent later"
            yield Violation(Rule.RECEIVED_IN_ORDER, entry.message, text)
        latest[entry.receiver, key] = max(at, before)


def _completed_twice(log: Iterable[Entry], copies: dict[int, str]) -> Iterator[Violation]:
    completed: set[int] = set()
    for entry in log:
        if isinstance(entry, Completed):
            if entry.sequence in completed:
                text = f"confirmed again as {entry.sequence:#x}"
                message = copies[entry.sequence]
                yield Violation(Rule.NOTHING_IS_COMPLETED_TWICE, message, text)
            completed.add(entry.sequence)


def _sent_once(log: Iterable[Entry]) -> dict[str, list[str]]:
    """Return the messages of each key that were sent exactly once, in that order."""
    keys: dict[str, str] = {}
    again: set[str] = set()
    for entry in log:
        if isinstance(entry, Sent) and entry.key is not None:
            if entry.message in keys:
                again.add(entry.message)
            keys[entry.message] = entry.key
    by_key: dict[str, list[str]] = {}
    for message, key in keys.items():
        if message not in again:
            by_key.setdefault(key, []).append(message)
    return by_key
