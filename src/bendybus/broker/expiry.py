"""When messages end: after their own time to live or their queue's, the shorter."""

from collections.abc import Sequence

from bendybus.broker.served_queue import ServedQueue
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.packed_messages import PackedMessages
from bendybus.model.plain_messages import PlainMessages


def set_expiry(queue: ServedQueue, messages: Sequence[Message], now: Instant) -> Instant | None:
    """Set when each message expires in the queue.

    One that is scheduled begins to live when its time comes. Returns the first of all these
    instants, if there is any.
    """
    if isinstance(messages, PackedMessages):
        return _set_common_expiry(queue, messages, now)
    default = queue.time_to_live_ms
    if isinstance(messages, PlainMessages):
        assert default is None, "those that expire are not plain"
        return None
    soonest: Instant | None = None
    for message in messages:
        own = message.time_to_live_ms
        begins_at = now
        if message.scheduled_at is not None and message.scheduled_at > now:
            begins_at = message.scheduled_at
            soonest = begins_at if soonest is None else min(soonest, begins_at)
        if own is not None:
            life = own if default is None else min(own, default)
        elif default is not None:
            life = default
        else:
            continue
        message.expires_at = Instant(begins_at + life)
        if soonest is None or message.expires_at < soonest:
            soonest = message.expires_at
    return soonest


def expiry_of(message: Message, queue: ServedQueue, now: Instant) -> Instant | None:
    """Return when a message that comes now expires in a queue, leaving the message as it is."""
    return common_expiry(queue, message.time_to_live_ms, now)


def common_expiry(queue: ServedQueue, time_to_live_ms: int | None, now: Instant) -> Instant | None:
    """Return when messages expire that come now and all live as long."""
    lives = [each for each in (time_to_live_ms, queue.time_to_live_ms) if each is not None]
    return Instant(now + min(lives)) if lives else None


def _set_common_expiry(
    queue: ServedQueue, messages: PackedMessages, now: Instant
) -> Instant | None:
    """Set when messages expire that are alike, and so all at once."""
    own = messages.times_to_live_ms
    assert own is None or isinstance(own, int), "messages that are alike have one time to live"
    messages.expires_at = common_expiry(queue, own, now)
    return messages.expires_at
