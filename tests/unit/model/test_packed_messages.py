"""Packed messages are the messages that were packed, however they are cut, joined and written."""

from array import array
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.packed_messages import (
    PackedMessages,
    fields_to_text,
    joined,
    unpack,
)

keys = st.none() | st.text(max_size=3)
numbers = st.none() | st.integers(0, 3)
messages = st.builds(
    Message,
    content=st.binary(max_size=5),
    message_id=st.text(max_size=3),
    session_id=keys,
    partition_key=keys,
    time_to_live_ms=numbers,
    scheduled_at=numbers.map(lambda each: None if each is None else Instant(each)),
)


def packed(some: list[Message]) -> PackedMessages:
    """Pack messages, saying no more than there is to say."""

    def column(name: str) -> Any:
        values = [getattr(each, name) for each in some]
        return values if any(value not in (None, "") for value in values) else None

    lives = column("time_to_live_ms")
    return PackedMessages(
        b"".join(each.content for each in some),
        array("I", [len(each.content) for each in some]),
        session_ids=column("session_id"),
        partition_keys=column("partition_key"),
        message_ids=column("message_id"),
        times_to_live_ms=lives[0] if lives and len(set(lives)) == 1 else lives,
        schedule=column("scheduled_at"),
    )


def as_packed(some: list[Message]) -> list[Message]:
    """Return what packing cannot tell apart as one: no key, and keys that are all empty."""
    return list(packed(some))


@given(st.lists(messages, max_size=8))
def test_packed_messages_are_the_same_messages(some: list[Message]) -> None:
    for message, before in zip(packed(some), some, strict=True):
        assert message.content == before.content
        assert (message.session_id or "") == (before.session_id or "")
        assert (message.partition_key or "") == (before.partition_key or "")
        assert message.time_to_live_ms == before.time_to_live_ms
        assert message.scheduled_at == before.scheduled_at
        assert message.message_id == before.message_id


@given(st.lists(messages, min_size=1, max_size=8), st.integers(1, 4), st.integers(1, 9))
def test_pieces_are_within_their_bounds_and_joined_again_they_are_the_whole(
    some: list[Message], count_max: int, bytes_max: int
) -> None:
    cut = list(packed(some).pieces(count_max=count_max, bytes_max=bytes_max))
    for piece in cut:
        assert 0 < len(piece) <= count_max
        assert len(piece) == 1 or len(piece.contents) <= bytes_max
    assert list(joined(cut)) == as_packed(some)
    # As few as can be: no two neighbours could have been one.
    for piece, following in pairwise(cut):
        is_full = len(piece) == count_max
        assert is_full or len(piece.contents) + following.sizes[0] > bytes_max


@given(st.lists(st.lists(messages, max_size=3), min_size=1, max_size=4))
def test_messages_of_several_packs_are_joined_in_their_order(parts: list[list[Message]]) -> None:
    together = joined([packed(part) for part in parts])
    assert list(together) == [message for part in parts for message in packed(part)]


@given(st.lists(messages, max_size=8))
def test_what_is_written_is_read_again(some: list[Message]) -> None:
    before = packed(some)
    again = unpack(before.contents, array("I", before.sizes.tobytes()), fields_to_text(before))
    assert list(again) == list(before)


@given(st.lists(messages, min_size=1, max_size=8), st.data())
def test_one_message_and_some_of_them_are_found_by_their_place(
    some: list[Message], data: st.DataObject
) -> None:
    whole = packed(some)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(some))] * 2)))
    assert list(whole[start:stop]) == list(whole)[start:stop]
    at = data.draw(st.integers(-len(some), len(some) - 1))
    assert whole[at] == list(whole)[at]


@pytest.mark.parametrize(
    ("fields", "is_alike"),
    [
        ({}, True),
        ({"session_ids": ["a", "b"]}, True),
        ({"session_ids": ["a", None]}, False),
        ({"partition_keys": ["a", "b"]}, True),
        ({"partition_keys": [None, "b"]}, False),
        ({"session_ids": ["a", "b"], "partition_keys": ["a", "b"]}, True),
        ({"session_ids": ["a", "b"], "partition_keys": ["b", "b"]}, False),
        ({"times_to_live_ms": 5}, True),
        ({"times_to_live_ms": [5, None]}, False),
        ({"schedule": [5, None]}, False),
        ({"message_ids": ["1", "2"]}, False),
    ],
)
def test_alike_are_those_that_differ_in_content_and_key_alone(
    fields: dict[str, Any], is_alike: bool
) -> None:
    assert PackedMessages(b"ab", array("I", [1, 1]), **fields).is_alike is is_alike
