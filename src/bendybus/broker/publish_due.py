"""publish due: what was scheduled at a topic is published when its time comes."""

from collections.abc import Sequence
from typing import Final

from bendybus.broker.admit import Admission
from bendybus.broker.clock import Clock
from bendybus.broker.publish import publication_of
from bendybus.broker.served_queue import Source
from bendybus.broker.served_topic import ServedTopic
from bendybus.model.errors import MessageLockLost
from bendybus.model.ids import Instant
from bendybus.model.message import Lock, Message, StoredMessage
from bendybus.model.operations import Guard, Operation, Remove

# What is read and written at once, unless one message alone is more.
BYTES_TOGETHER: Final = 8 * 1024 * 1024
COUNT_TOGETHER: Final = 100
_UNBOUNDED: Final = 1 << 62


async def publish_due(
    topic: ServedTopic, source: Source, locks: Sequence[Lock], clock: Clock
) -> None:
    """Publish scheduled messages, in the order given, and let the topic hold them no longer.

    Both in one commit. One that was cancelled meanwhile stays cancelled; those that came with it
    are found again by the next sweep.
    """
    together = max(1, min(COUNT_TOGETHER, BYTES_TOGETHER // topic.message_bytes_max))
    for start in range(0, len(locks), together):
        await _publish(topic, source, locks[start : start + together], clock)


async def _publish(topic: ServedTopic, source: Source, locks: Sequence[Lock], clock: Clock) -> None:
    found = await source.store.find(source.number, [lock.sequence for lock in locks])
    stored = {message.sequence: message for message in found}
    held = [lock for lock in locks if lock.sequence in stored]
    if not held:
        return
    now = clock.now()
    messages = [_message(stored[lock.sequence]) for lock in held]
    publication = await publication_of(topic, source, messages, now)
    publish = publication.operation(None)
    # They had their room while they waited, and there is nobody to be told that there is none.
    publish.bytes_max = _UNBOUNDED
    admission = Admission([publish], publication.arrivals)
    admission.announce()
    operations: list[Operation] = [Remove(source.number, held, Guard.DUE), publish]
    try:
        await source.store.apply(operations, now=now, is_strict=True)
    except MessageLockLost:
        return
    admission.tell()
    topic.note_use()


def _message(stored: StoredMessage) -> Message:
    """Return a message as if it were sent now; its time to live begins now, too."""
    life = None if stored.expires_at is None else stored.expires_at - stored.enqueued_at
    return Message(
        stored.content,
        session_id=stored.session_id,
        partition_key=stored.partition_key,
        time_to_live_ms=life,
        scheduled_at=Instant(stored.enqueued_at),
        marks=stored.marks,
    )
