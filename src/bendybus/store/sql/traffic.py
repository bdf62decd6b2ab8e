"""What happens to messages, noted as it is done and counted when it is committed."""

from collections.abc import Sequence
from typing import Final

from bendybus.model.operations import (
    Activate,
    Answer,
    Guard,
    Move,
    Operation,
    Purge,
    Purged,
    ReleaseSession,
    Remove,
    Requeue,
    SetAside,
    Unlock,
)
from bendybus.store.figures import Event, Happened

# Others are a client's own words, of which there may be any number.
KNOWN_REASONS: Final = frozenset({"TTLExpiredException", "MaxDeliveryCountExceeded"})
OTHER_REASON: Final = "other"
_REMOVED_AS: Final = {
    Guard.HELD: Event.COMPLETED,
    # As it would have been by whoever took it elsewhere.
    Guard.THERE: Event.COMPLETED,
    Guard.FREE: Event.EXPIRED,
    Guard.SCHEDULED: Event.CANCELLED,
    Guard.DUE: Event.ACTIVATED,
}


class TrafficNotes:
    """What the commit under way has done, by caller, so that what is undone is forgotten."""

    __slots__ = ("_gone", "_mark", "_notes")

    def __init__(self) -> None:
        self._notes: list[tuple[Happened, int]] = []
        self._mark = 0
        self._gone: set[int] = set()

    def note(self, queue: int, event: Event, count: int, reason: str = "") -> None:
        """Note something done."""
        if count:
            self._notes.append(((queue, event, reason), count))

    def forget(self, queues: Sequence[int]) -> None:
        """Keep no counts of queues that are gone."""
        self._gone.update(queues)

    def begin(self) -> None:
        """Begin the work of the next caller."""
        self._mark = len(self._notes)

    def undo(self) -> None:
        """Forget the work of the caller."""
        del self._notes[self._mark :]

    def undo_all(self) -> None:
        """Forget the work of all callers: none of it is committed."""
        self._notes.clear()

    def count_into(self, counted: dict[Happened, int]) -> None:
        """Count what was noted: it is committed."""
        for key, count in self._notes:
            counted[key] = counted.get(key, 0) + count
        self._notes.clear()
        if self._gone:
            for key in [key for key in counted if key[0] in self._gone]:
                del counted[key]
            self._gone.clear()


def note_operation(notes: TrafficNotes, operation: Operation, answer: Answer) -> None:
    """Note what an operation did, by its answer. Arrivals are noted where they are written."""
    match operation:
        case Remove(queue, locks, guard):
            event = _REMOVED_AS.get(guard, Event.PURGED)
            _note_settled(notes, queue, event, len(locks), answer, guard)
        case Unlock(queue, locks, is_counted, guard):
            event = Event.ABANDONED if is_counted else Event.RETURNED
            if guard is Guard.LAPSED:
                event = Event.LAPSED
            _note_settled(notes, queue, event, len(locks), answer, guard)
        case SetAside(queue, locks):
            _note_settled(notes, queue, Event.DEFERRED, len(locks), answer, Guard.HELD)
        case Move():
            _note_move(notes, operation, answer)
        case Requeue(queue, _, messages):
            _note_settled(notes, queue, Event.REDRIVEN, len(messages), answer, Guard.UNTOUCHED)
        case Activate(queue, sequences):
            _note_settled(notes, queue, Event.ACTIVATED, len(sequences), answer, Guard.DUE)
        case Purge(queue):
            assert isinstance(answer, Purged)
            notes.note(queue, Event.PURGED, answer.deleted)
        case ReleaseSession(queue):
            assert isinstance(answer, int)
            # One of it is the session.
            notes.note(queue, Event.RETURNED, max(answer - 1, 0))
        case _:
            pass


def _note_settled(
    notes: TrafficNotes, queue: int, event: Event, count: int, lost: Answer, guard: Guard
) -> None:
    assert isinstance(lost, list)
    notes.note(queue, event, count - len(lost))
    if guard is Guard.HELD:
        notes.note(queue, Event.REFUSED, len(lost))


def _note_move(notes: TrafficNotes, operation: Move, lost: Answer) -> None:
    """Note that a message became a dead letter, or why it did not."""
    queue, guard = operation.queue, operation.guard
    if lost:
        if guard is Guard.HELD:
            notes.note(queue, Event.REFUSED, 1)
        return
    reason = operation.marks.dead_letter_reason
    known = reason if reason in KNOWN_REASONS else OTHER_REASON
    notes.note(queue, Event.DEAD_LETTERED, 1, known or OTHER_REASON)
    if guard is Guard.LAPSED:
        notes.note(queue, Event.LAPSED, 1)
    elif guard is Guard.FREE:
        notes.note(queue, Event.EXPIRED, 1)
