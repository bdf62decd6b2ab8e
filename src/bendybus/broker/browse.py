"""browse: look at messages without touching them."""

from typing import Final

from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.ids import fragment_of
from bendybus.model.message import StoredMessage

BROWSE_BYTES_MAX: Final = 256 * 1024
BROWSE_COUNT_MAX: Final = 250


async def browse(
    sub_queue: ServedSubQueue,
    from_sequence: int,
    count_max: int,
    session_id: str | None = None,
) -> list[StoredMessage]:
    """Return messages from a sequence number on, in numeric order (R3.5).

    The messages of one answer are of one fragment; whoever asks on from the last one, plus one,
    is led through all of them. Fragments whose store is offline are passed over. With a session
    only its messages are looked at; nobody need hold it.
    """
    count = min(count_max, BROWSE_COUNT_MAX)
    first = fragment_of(max(from_sequence, 0))
    for source in sub_queue.sources[first:]:
        is_elsewhere = session_id is not None and source is not sub_queue.source_of_session(
            session_id
        )
        if is_elsewhere or not source.store.is_online:
            continue
        start = from_sequence if source.fragment == first else 0
        messages = await source.store.browse(
            source.number,
            from_sequence=start,
            count_max=count,
            bytes_max=BROWSE_BYTES_MAX,
            session_id=session_id,
        )
        if messages:
            return messages
    return []
