"""What stands for the id of a message, together with its key, where duplicates are looked for."""

from hashlib import blake2b
from typing import Final

from bendybus.model.message import Message
from bendybus.model.partitioning import key_of

# 96 bits: that two of a thousand million ids are taken for one is less likely than that the disk
# loses both. Twelve bytes are also what fits into the smallest object that Python makes for them.
DIGEST_SIZE: Final = 12
# How the digest of a message without a key begins. Copied: to make one anew takes longer than
# all the rest of a digest.
_WITHOUT_KEY: Final = blake2b(b"-", digest_size=DIGEST_SIZE)


def digest_of(message: Message) -> bytes | None:
    """Return the digest of the message's id and key, if it has an id."""
    if message.digest is not None:
        return message.digest
    message_id = message.message_id
    if not message_id:
        return None
    if message.session_id is None and message.partition_key is None:
        return digest_of_plain(_encoded(message_id))
    key = key_of(message, has_duplicate_detection=False)
    assert key is not None, "it has one of the two"
    # The length tells where the one ends; no key is told from an empty one.
    whole = _encoded(f"{len(key)}:{key}{message_id}")
    return blake2b(whole, digest_size=DIGEST_SIZE).digest()


def digest_of_plain(message_id: bytes) -> bytes:
    """Return the digest of an id, in UTF-8, of a message without a key."""
    state = _WITHOUT_KEY.copy()
    state.update(message_id)
    return state.digest()


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Only then: to ask for it takes longer than the digest.
        return text.encode("utf-8", "surrogatepass")
