"""Which fragment a message belongs to (R2)."""

from collections.abc import Sequence
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


def places_by_fragment(
    messages: Sequence[Message], fragment_count: int, *, has_duplicate_detection: bool
) -> dict[FragmentIndex | None, list[int]]:
    """Say where among messages those of each fragment are, and under None those without a key.

    The same as `key_of` and `fragment_for` of each: of thousands a second, calls are what costs.
    """
    places: dict[FragmentIndex | None, list[int]] = {}
    for at, message in enumerate(messages):
        key = message.session_id
        if key is None:
            key = message.partition_key
            if key is None and has_duplicate_detection:
                key = message.message_id or None
        fragment = None if key is None else FragmentIndex(crc32(key.encode()) % fragment_count)
        there = places.get(fragment)
        if there is None:
            places[fragment] = [at]
        else:
            there.append(at)
    return places


def places_of_ids(
    message_ids: Sequence[bytes], fragment_count: int
) -> dict[FragmentIndex | None, list[int]]:
    """Do as `places_by_fragment` with ids that are keys, in UTF-8."""
    places: list[list[int]] = [[] for _ in range(fragment_count)]
    for at, checksum in enumerate(map(crc32, message_ids)):
        places[checksum % fragment_count].append(at)
    return {FragmentIndex(index): there for index, there in enumerate(places) if there}


def fragment_for(key: str, fragment_count: int) -> FragmentIndex:
    """Choose the fragment of a key: the same one always, on every node and version (R2.3).

    CRC-32 because it is the same everywhere and will never change under us, as Python's own
    hash would.
    """
    return FragmentIndex(crc32(key.encode()) % fragment_count)
