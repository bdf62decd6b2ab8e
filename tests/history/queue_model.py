"""What a queue ought to hold: one dictionary, by the content of each message.

The model knows the promises and none of the ways in which the broker keeps them. Where a promise
leaves the broker a choice (the fragment of a keyless message, the order in which messages that
were due together reach the dead-letter queue) the model takes the answer from the first look at
the message, and holds the broker to it from then on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from bendybus.model.ids import COUNTER_MASK, SubQueue, fragment_of
from bendybus.model.message import Lock, Marks, MessageState, StoredMessage
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release

LOCK_DURATION_MS: Final = 5_000
DELIVERY_COUNT_MAX: Final = 2
# The number that a message was sent under, if it was taken elsewhere before anybody saw it.
UNKNOWN: Final = -1
# A description that is there for people to read, whatever it says.
ANY_TEXT: Final = "?"


@dataclass(slots=True)
class Expected:
    """One message that must be there, as it must be."""

    content: bytes
    key: str | None
    enqueued_at: int
    expires_at: int | None
    session_id: str | None = None
    place: SubQueue = SubQueue.MAIN
    state: MessageState = MessageState.ACTIVE
    # Not known until the message was seen for the first time in its place.
    sequence: int | None = None
    fragment: int | None = None
    # The number under which its content came in; it stays when the message moves.
    first_sequence: int | None = None
    delivery_count: int = 0
    marks: Marks | None = None
    locked_until: int | None = None
    nonce: int | None = None
    # Messages of one group were sent one after the other; None is a group, too.
    order_group: object = None

    def is_free(self, now: int) -> bool:
        """Whether a receiver may be given it."""
        return (
            self.state is MessageState.ACTIVE
            and self.locked_until is None
            and not self.is_expired(now)
        )

    def is_expired(self, now: int) -> bool:
        """Whether its time to live has ended."""
        return self.expires_at is not None and self.expires_at <= now

    def is_held_by(self, lock: Lock, now: int) -> bool:
        """Whether this lock is the one it is under, and has not ended."""
        return (
            self.nonce == lock.nonce and self.locked_until is not None and self.locked_until > now
        )


@dataclass(slots=True)
class QueueModel:
    """All messages of one queue or subscription and of its sub-queues."""

    name: str
    is_dead_lettered_on_expiry: bool
    messages: dict[bytes, Expected] = field(default_factory=dict)
    # Where each key was seen first: it stays there.
    fragments_of_keys: dict[str, int | None] = field(default_factory=dict)
    # Whether messages may come and go between two looks, and take their numbers along.
    has_gaps: bool = False
    # The last counter given in each sub-queue of each fragment.
    counters: dict[tuple[SubQueue, int], int] = field(default_factory=dict)
    lock_duration_ms: int = LOCK_DURATION_MS
    delivery_count_max: int = DELIVERY_COUNT_MAX

    # What the verbs mean

    def add(self, message: Expected) -> None:
        """Note a message that was accepted."""
        self.messages[message.content] = message
        if message.key is not None:
            first = self.fragments_of_keys.setdefault(message.key, message.fragment)
            assert message.fragment == first, "a key has moved to another fragment"

    def receive(
        self,
        place: SubQueue,
        returned: Sequence[StoredMessage],
        shown: Iterable[StoredMessage],
        now: int,
        *,
        is_removed: bool,
    ) -> list[StoredMessage]:
        """Note what a receive took; return what it locked and has not handed out.

        `shown` is how the sub-queue looks afterwards. Whatever was free and is no longer was
        taken, and must have been the oldest of its fragment. What was handed out and was not
        free comes from the receiver's cache, and must still be under the lock it came with.
        """
        free = {each.content for each in self.held_in(place) if each.is_free(now)}
        locked = [each for each in shown if each.nonce is not None and each.content in free]
        fresh = [each for each in returned if each.content in free]
        self.check_oldest(place, {each.content for each in (*locked, *fresh)}, now)
        _check_order(fresh)
        for message in (*fresh, *locked):
            expected = self.messages[message.content]
            expected.locked_until, expected.nonce = now + self.lock_duration_ms, message.nonce
        for message in returned:
            expected = self.messages[message.content]
            assert expected.is_held_by(message.lock, now), "handed out, but its lock has ended"
            check_fields(message, expected)
            if is_removed:
                del self.messages[message.content]
        handed_out = {each.content for each in returned}
        return [each for each in locked if each.content not in handed_out]

    def check_oldest(self, place: SubQueue, taken: set[bytes], now: int) -> None:
        """Check that of each fragment the oldest free messages were taken."""
        for fragment in {self.messages[content].fragment for content in taken}:
            assert fragment is not None, "every message has been seen before"
            free = [each.content for each in self.free_in(place, fragment, now)]
            of_fragment = [content for content in free if content in taken]
            assert of_fragment == free[: len(of_fragment)], "not the oldest free messages"

    def settle(self, place: SubQueue, lock: Lock, outcome: Outcome, now: int) -> bool:
        """Note a settlement; return whether it ought to have succeeded."""
        message = self.find(place, lock.sequence)
        if message is None or not message.is_held_by(lock, now):
            return False
        match outcome:
            case Complete():
                del self.messages[message.content]
            case Release():
                message.locked_until = message.nonce = None
            case Abandon(changes):
                self._add_changes(message, changes)
                self._count_failure(message)
            case Defer(changes):
                self._add_changes(message, changes)
                message.locked_until = message.nonce = None
                message.state = MessageState.DEFERRED
            case DeadLetter(reason, description, changes):
                self._add_changes(message, changes)
                self._dead_letter(message, reason, description)
            case _:
                assert_never(outcome)
        return True

    def are_deferred(self, place: SubQueue, sequences: Iterable[int]) -> bool:
        """Say whether all of these can be received by their sequence numbers."""
        found = [self.find(place, sequence) for sequence in sequences]
        return all(
            each is not None and each.state is MessageState.DEFERRED and each.locked_until is None
            for each in found
        )

    def receive_deferred(
        self, place: SubQueue, returned: Sequence[StoredMessage], now: int, *, is_removed: bool
    ) -> None:
        """Note deferred messages that were handed out; they stay deferred."""
        for message in returned:
            expected = self.messages[message.content]
            assert message.nonce is not None
            expected.locked_until, expected.nonce = now + self.lock_duration_ms, message.nonce
            assert expected.place is place
            check_fields(message, expected)
            if is_removed:
                del self.messages[message.content]

    def renew(self, place: SubQueue, lock: Lock, now: int) -> bool:
        """Note a renewal; return whether it ought to have succeeded."""
        message = self.find(place, lock.sequence)
        if message is None or not message.is_held_by(lock, now):
            return False
        message.locked_until = now + self.lock_duration_ms
        return True

    def sweep(self, now: int, is_online: Callable[[Expected], bool]) -> None:
        """Note what a sweep does to all that is due in the stores it can reach."""
        reached = [each for each in self.messages.values() if is_online(each)]
        lapsed = [each for each in reached if each.locked_until and each.locked_until <= now]
        expired = [
            each
            for each in reached
            if each.state is MessageState.ACTIVE and not each.locked_until and each.is_expired(now)
        ]
        for message in lapsed:
            self._count_failure(message)
        for message in expired:
            if self.is_dead_lettered_on_expiry and message.place is SubQueue.MAIN:
                self._dead_letter(
                    message, "TTLExpiredException", "The message expired and was dead lettered."
                )
            else:
                del self.messages[message.content]

    def redrive(self, dead: Sequence[Expected], expires_at: int | None) -> None:
        """Note dead letters that went back, in their order: they begin anew."""
        for message in sorted(dead, key=lambda each: each.sequence or 0):
            # As if it had been sent just now.
            del self.messages[message.content]
            self.messages[message.content] = message
            marks = replace(
                message.marks or Marks(),
                dead_letter_reason=None,
                dead_letter_description=None,
                dead_letter_source=None,
            )
            message.marks = None if marks == Marks() else marks
            message.place, message.sequence = SubQueue.MAIN, None
            message.delivery_count, message.expires_at = 0, expires_at

    # What the queue then holds

    def find(self, place: SubQueue, sequence: int) -> Expected | None:
        """Return the message with that sequence number."""
        for message in self.messages.values():
            if message.place is place and message.sequence == sequence:
                return message
        return None

    def held_in(self, place: SubQueue) -> list[Expected]:
        """Return the messages of a sub-queue, in the order in which they were sent."""
        return [each for each in self.messages.values() if each.place is place]

    def free_in(self, place: SubQueue, fragment: int, now: int) -> list[Expected]:
        """Return what a receiver may be given from one fragment, the oldest first."""
        free = [
            each for each in self.held_in(place) if each.fragment == fragment and each.is_free(now)
        ]
        return sorted(free, key=lambda each: each.sequence or 0)

    def check(
        self, place: SubQueue, seen: Iterable[StoredMessage], reachable: list[Expected]
    ) -> None:
        """Compare what a sub-queue shows with what it ought to hold where it can be reached."""
        shown = list(seen)
        sequences = [message.sequence for message in shown]
        assert sequences == sorted(set(sequences)), "not in order, or a message twice"
        assert {each.content for each in shown} == {each.content for each in reachable}
        self._welcome(place, shown)
        for message in shown:
            check_fields(message, self.messages[message.content])

    def _welcome(self, place: SubQueue, shown: list[StoredMessage]) -> None:
        """Learn the numbers of messages that are new here; none may be left out or repeated."""
        order = list(self.messages)
        latest: dict[tuple[int, object], int] = {}
        for message in shown:
            expected = self.messages[message.content]
            if expected.sequence is not None:
                continue
            fragment, counter = fragment_of(message.sequence), message.sequence & COUNTER_MASK
            assert expected.fragment in (None, fragment), "a key has moved to another fragment"
            following = self.counters.get((place, fragment), 0) + 1
            assert counter == following or (self.has_gaps and counter > following), "a gap"
            self.counters[place, fragment] = counter
            if place is SubQueue.MAIN:
                at, group = order.index(message.content), (fragment, expected.order_group)
                assert at > latest.get(group, -1), "not in the order in which they were sent"
                latest[group] = at
            expected.sequence, expected.fragment = message.sequence, fragment
            if expected.first_sequence is None:
                expected.first_sequence = message.enqueued_sequence or message.sequence
            if expected.marks is not None and message.marks is not None:
                expected.marks = _learned(expected.marks, message.marks)

    # Rules

    def _count_failure(self, message: Expected) -> None:
        message.locked_until = message.nonce = None
        message.delivery_count += 1
        if message.place is SubQueue.MAIN and message.delivery_count >= self.delivery_count_max:
            self._dead_letter(
                message,
                "MaxDeliveryCountExceeded",
                f"Message could not be consumed after {self.delivery_count_max} delivery attempts.",
            )

    def _dead_letter(self, message: Expected, reason: str | None, description: str | None) -> None:
        message.marks = replace(
            message.marks or Marks(),
            dead_letter_reason=reason,
            dead_letter_description=description,
            dead_letter_source=self.name,
        )
        message.place, message.sequence = SubQueue.DEAD_LETTER, None
        message.state = MessageState.ACTIVE
        message.locked_until = message.nonce = message.expires_at = None

    @staticmethod
    def _add_changes(message: Expected, changes: bytes | None) -> None:
        if changes is None:
            return
        marks = message.marks or Marks()
        before = marks.property_changes or b""
        message.marks = replace(marks, property_changes=before + changes)


def _learned(expected: Marks, shown: Marks) -> Marks:
    """Return what is expected, with the answers to what could not be known before."""
    if expected.enqueued_sequence == UNKNOWN:
        expected = replace(expected, enqueued_sequence=shown.enqueued_sequence)
    if expected.dead_letter_description == ANY_TEXT and shown.dead_letter_description:
        expected = replace(expected, dead_letter_description=shown.dead_letter_description)
    return expected


def _check_order(messages: Sequence[StoredMessage]) -> None:
    """Messages of one fragment come in the order of their numbers."""
    latest: dict[int, int] = {}
    for message in messages:
        fragment = fragment_of(message.sequence)
        assert message.sequence > latest.get(fragment, -1), "not in the order of the numbers"
        latest[fragment] = message.sequence


def check_fields(message: StoredMessage, expected: Expected) -> None:
    """Compare one message, field by field."""
    shown = (
        *(message.sequence, message.enqueued_at, message.expires_at, message.delivery_count),
        *(message.partition_key, message.session_id, message.state),
        *(message.marks, message.locked_until, message.nonce),
        message.enqueued_sequence or message.sequence,
    )
    assert shown == (
        *(expected.sequence, expected.enqueued_at, expected.expires_at, expected.delivery_count),
        *(expected.key, expected.session_id, expected.state),
        *(expected.marks, expected.locked_until, expected.nonce),
        expected.first_sequence,
    ), f"{message} is not {expected}"
