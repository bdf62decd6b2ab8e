"""What stands for an id in the log of duplicate detection."""

import pytest

from bendybus.model.digests import digest_of
from bendybus.model.message import Message


@pytest.mark.parametrize(
    ("message", "digest"),
    [
        (Message(b"", "order-1"), "0057c558eed6c7452ad4df0d"),
        (Message(b"", "ünïcode"), "3c78c7db358024ef6d16cacc"),
        (Message(b"", "half a pair: \ud800"), "126e04d8880ee2deecdff79a"),
        (Message(b"", "order-1", session_id="s"), "fed8b2c2dc4a6a470c7ab642"),
        (Message(b"", "order-1", partition_key="s"), "fed8b2c2dc4a6a470c7ab642"),
        (Message(b"", "order-1", partition_key=""), "62d66e68fdd58f6735e20171"),
    ],
    ids=["plain", "not ASCII", "no text", "session", "partition key", "empty key"],
)
def test_the_digest_of_an_id_never_changes(message: Message, digest: str) -> None:
    """Written down: logs already hold ids that stand there by these digests."""
    found = digest_of(message)
    assert found is not None
    assert found.hex() == digest


def test_without_an_id_there_is_no_digest() -> None:
    assert digest_of(Message(b"", partition_key="s")) is None
