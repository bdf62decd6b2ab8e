"""send via: messages go to one entity by way of another, whose transfer queue takes them on."""

from collections.abc import Sequence

from bendybus.broker.clock import Clock
from bendybus.broker.send import check_open_for_send
from bendybus.broker.served_queue import ServedQueue, Source
from bendybus.model.errors import QuotaExceeded, StoreUnavailable
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append
from bendybus.model.partitioning import fragment_for


async def send_via(
    via: ServedQueue, key: str | None, to: ServedQueue, messages: Sequence[Message], clock: Clock
) -> None:
    """Store messages in the transfer queue of an entity; durable on return.

    From there they are moved on, exactly once, or into its transfer dead-letter queue. Without a
    key any fragment will do that is online and has room.
    """
    check_open_for_send(via)
    check_open_for_send(to)
    address(messages, to)
    outbox = via.sub_queues[SubQueue.TRANSFER]
    sources = [outbox.sources[each.fragment] for each in via.rotation()]
    if key is not None and via.is_partitioned:
        sources = [outbox.sources[fragment_for(key, len(sources))]]
    refusal: StoreUnavailable | QuotaExceeded | None = None
    for source in sources:
        if not source.store.is_online:
            refusal = via.unavailable(source)
            continue
        now = clock.now()
        try:
            await source.store.apply([transferring(via, source, messages, now)], now=now)
        except (StoreUnavailable, QuotaExceeded) as error:
            refusal = error
        else:
            outbox.note_added(source, len(messages))
            return
    assert refusal is not None, "a queue has at least one fragment"
    raise refusal


def address(messages: Sequence[Message], to: ServedQueue) -> None:
    """Mark messages with the entity that they are to be taken to."""
    for message in messages:
        message.marks = Marks(destination=to.name)


def transferring(
    via: ServedQueue, source: Source, messages: Sequence[Message], now: Instant
) -> Append:
    """Make the write that leaves messages in a transfer queue.

    What is left of their time to live counts on where they arrive; the default of that entity
    applies there.
    """
    for message in messages:
        begins_at = now
        if message.scheduled_at is not None and message.scheduled_at > now:
            begins_at = message.scheduled_at
            source.timetable.note(begins_at)
        if message.time_to_live_ms is not None:
            message.expires_at = Instant(begins_at + message.time_to_live_ms)
            source.timetable.note(message.expires_at)
    return Append(source.number, messages, via.fragment_bytes_max)
