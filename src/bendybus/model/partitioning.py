"""Which fragment a message belongs to (R2)."""

from zlib import crc32

from bendybus.model.errors import InvalidOperation
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message


def check_keys(message: Message) -> None:
    """Refuse a message whose session and partition key contradict each other (R2.2)."""
    session_id, partition_key = message.session_id, message.partition_key
    if session_id is not None and partition_key is not None and session_id != partition_key:
        raise InvalidOperation(
            f"The PartitionKey '{partition_key}' of the message differs from its SessionId"
            f" '{session_id}'. Leave the PartitionKey out or make both the same."
        )


def key_of(message: Message, *, has_duplicate_detection: bool) -> str | None:
    """Return what binds the message to a fragment: session, partition key, or id (R2.1)."""
    if message.session_id is not None:
        return message.session_id
    if message.partition_key is not None:
        return message.partition_key
    return (message.message_id or None) if has_duplicate_detection else None


def fragment_for(key: str, fragment_count: int) -> FragmentIndex:
    """Choose the fragment of a key: the same one always, on every node and version (R2.3).

    CRC-32 because it is the same everywhere and will never change under us, as Python's own
    hash would.
    """
    return FragmentIndex(crc32(key.encode()) % fragment_count)
