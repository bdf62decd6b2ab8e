"""Which fragment a message belongs to (R2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.errors import InvalidOperation
from bendybus.model.message import Message
from bendybus.model.partitioning import (
    check_keys,
    fragment_for,
    key_of,
    places_by_fragment,
    places_of_ids,
)

KEYS = st.text(min_size=1, max_size=128)


def _message(
    *, session_id: str | None = None, partition_key: str | None = None, message_id: str = "id"
) -> Message:
    return Message(b"", message_id=message_id, session_id=session_id, partition_key=partition_key)


@pytest.mark.spec("R2.1")
@pytest.mark.parametrize(
    ("session_id", "partition_key", "has_duplicate_detection", "key"),
    [
        ("s", "p", False, "s"),
        ("s", None, False, "s"),
        (None, "p", False, "p"),
        (None, None, False, None),
        ("s", "p", True, "s"),
        ("s", None, True, "s"),
        (None, "p", True, "p"),
        (None, None, True, "id"),
        ("", "p", False, ""),
    ],
)
def test_the_key_is_session_then_partition_key_then_id_under_duplicate_detection(
    session_id: str | None,
    partition_key: str | None,
    has_duplicate_detection: bool,
    key: str | None,
) -> None:
    message = _message(session_id=session_id, partition_key=partition_key)

    assert key_of(message, has_duplicate_detection=has_duplicate_detection) == key


@pytest.mark.spec("R2.2")
@pytest.mark.parametrize(
    ("session_id", "partition_key"), [("a", "a"), ("a", None), (None, "b"), (None, None)]
)
def test_keys_that_agree_are_allowed(session_id: str | None, partition_key: str | None) -> None:
    check_keys(_message(session_id=session_id, partition_key=partition_key))


@pytest.mark.spec("R2.2")
@pytest.mark.parametrize(("session_id", "partition_key"), [("a", "b"), ("a", "A"), ("", "b")])
def test_keys_that_differ_are_an_invalid_operation(session_id: str, partition_key: str) -> None:
    with pytest.raises(InvalidOperation, match="differs from its SessionId"):
        check_keys(_message(session_id=session_id, partition_key=partition_key))


@pytest.mark.spec("R2.3")
@pytest.mark.parametrize(
    ("key", "fragment"), [("", 0), ("a", 3), ("order-1", 15), ("ünïcode", 10), ("x" * 128, 7)]
)
def test_the_fragment_of_a_key_never_changes(key: str, fragment: int) -> None:
    """Written down: stores already hold messages that were placed by these numbers."""
    assert fragment_for(key, 16) == fragment


@pytest.mark.spec("R2.3")
@given(KEYS, st.integers(1, 1000))
def test_every_key_has_a_fragment(key: str, count: int) -> None:
    assert 0 <= fragment_for(key, count) < count


MESSAGES = st.builds(
    _message,
    session_id=st.none() | KEYS,
    partition_key=st.none() | KEYS,
    message_id=st.just("") | KEYS,
)


@pytest.mark.spec("R2.1")
@given(st.lists(MESSAGES), st.integers(1, 20), st.booleans())
def test_of_many_messages_each_is_placed_as_by_itself(
    messages: list[Message], count: int, has_duplicate_detection: bool
) -> None:
    places = places_by_fragment(messages, count, has_duplicate_detection=has_duplicate_detection)
    for fragment, there in places.items():
        assert there == sorted(there)
        for at in there:
            key = key_of(messages[at], has_duplicate_detection=has_duplicate_detection)
            assert fragment == (None if key is None else fragment_for(key, count))
    assert sorted(at for there in places.values() for at in there) == list(range(len(messages)))


@pytest.mark.spec("R2.4")
def test_many_keys_spread_over_all_fragments() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[fragment_for(f"customer-{number}", 16)] += 1

    assert min(counts) > 800
    assert max(counts) < 1200


@pytest.mark.spec("R2.1")
@given(st.lists(KEYS), st.sampled_from([1, 2, 4, 16]))
def test_ids_by_themselves_belong_where_their_messages_do(ids: list[str], fragments: int) -> None:
    messages = [_message(message_id=each) for each in ids]

    places = places_of_ids([each.encode() for each in ids], fragments)

    assert places == places_by_fragment(messages, fragments, has_duplicate_detection=True)
