"""What a queue ought to hold that sets messages aside: deferred, scheduled, or seen before."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bendybus.model.ids import SubQueue
from bendybus.model.message import Message, MessageState
from tests.history.queue_model import Expected, QueueModel

# What tells two messages apart: the key that they were sent with, and their own id.
Identity = tuple[str | None, str]


@dataclass(slots=True)
class SetAsideModel(QueueModel):
    """A queue with schedules and, if it has a window, with duplicate detection."""

    window_ms: int | None = None
    # When each id was seen first; the window begins there.
    seen: dict[Identity, int] = field(default_factory=dict)

    def is_duplicate(self, message: Message, now: int) -> bool:
        """Say whether the message is to be dropped; if not, note that it was seen."""
        if self.window_ms is None or not message.message_id:
            return False
        identity = message.partition_key, message.message_id
        seen_at = self.seen.get(identity)
        if seen_at is not None and seen_at > now - self.window_ms:
            return True
        self.seen[identity] = now
        return False

    def sweep(self, now: int, is_online: Callable[[Expected], bool]) -> None:
        """Note what a sweep does; what has just become active it looks at the next time."""
        due = [
            each
            for each in self.messages.values()
            if each.state is MessageState.SCHEDULED and each.enqueued_at <= now and is_online(each)
        ]
        QueueModel.sweep(self, now, is_online)
        for message in sorted(due, key=lambda each: (each.enqueued_at, each.sequence or 0)):
            # To the end of the queue, under a number that is not known yet.
            self.messages[message.content] = self.messages.pop(message.content)
            message.state, message.sequence = MessageState.ACTIVE, None

    def cancel(self, sequences: Iterable[int], now: int) -> bool:
        """Note a cancellation; return whether it ought to have succeeded."""
        found = [self.find(SubQueue.MAIN, sequence) for sequence in sequences]
        waiting = [
            each
            for each in found
            if each is not None and each.state is MessageState.SCHEDULED and each.enqueued_at > now
        ]
        if len(waiting) < len(found):
            return False
        for message in waiting:
            self.messages.pop(message.content, None)
        return True

    def purgeable(self, place: SubQueue, state: MessageState, until: int) -> list[Expected]:
        """Return what a purge may delete, the oldest of each fragment first."""
        found = [
            each
            for each in self.held_in(place)
            if each.state is state and each.locked_until is None and each.enqueued_at <= until
        ]
        return sorted(found, key=lambda each: each.sequence or 0)

    def purge(self, purgeable: list[Expected], kept: set[bytes]) -> int:
        """Note which of the messages a purge has left; return how many it deleted."""
        for fragment in {each.fragment for each in purgeable}:
            contents = [each.content for each in purgeable if each.fragment == fragment]
            gone = [content for content in contents if content not in kept]
            assert gone == contents[: len(gone)], "not the oldest were deleted"
        deleted = [each for each in purgeable if each.content not in kept]
        for message in deleted:
            del self.messages[message.content]
        return len(deleted)


def sent(message: Message, life_ms: int | None, now: int, fragment: int | None) -> Expected:
    """Return what is to be expected of a message that was sent, at once or for later."""
    begins_at = max(now, message.scheduled_at or 0)
    return Expected(
        message.content,
        message.partition_key,
        begins_at,
        None if life_ms is None else begins_at + life_ms,
        state=MessageState.SCHEDULED if begins_at > now else MessageState.ACTIVE,
        fragment=fragment,
    )
