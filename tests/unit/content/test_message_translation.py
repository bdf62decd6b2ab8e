"""In and out of the stored form: the quick ways must say what the careful ways say."""

import contextlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import Symbol, Ubyte, Uint
from bendybus.content.incoming_message import (
    _read_message,
    _read_plain_message,
    read_batch,
    read_message,
    read_plain_messages,
)
from bendybus.content.outgoing_message import (
    Quick,
    careful_payload,
    decode_changes,
    delivery_tag,
    encode_changes,
    lock_of_token,
    lock_token,
    payload_of,
)
from bendybus.content.stored_content import decode_head, join_content, split_content
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import sequence_number
from bendybus.model.message import Lock, Marks, StoredMessage
from bendybus.testing.clock import NOON
from tests.protocol.messaging.sample_messages import see

HEADERS = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from([None, True, False]),
        st.sampled_from([None, Ubyte(0), Ubyte(9)]),
        st.sampled_from([None, Uint(0), Uint(60_000), Uint(2**32 - 1)]),
    ),
)
BODIES = st.one_of(
    st.tuples(st.just(SectionCode.DATA), st.binary(max_size=300)),
    st.tuples(st.just(SectionCode.AMQP_VALUE), st.text(max_size=300)),
    st.tuples(st.just(SectionCode.AMQP_VALUE), st.binary(max_size=300)),
)
IDS = st.text(min_size=1, max_size=40)
DEAD = Marks("reason", "description", "orders", 42, hops=1)


def _encoded(header: tuple[object, ...] | None, message_id: object, fields: int) -> bytes:
    head = b"" if header is None else encode_section(SectionCode.HEADER, list(header))
    properties: list[object] = [message_id, *[None] * (fields - 1)]
    return head + encode_section(SectionCode.PROPERTIES, properties)


def _stored(content: bytes, **fields: object) -> StoredMessage:
    values: dict[str, object] = {
        "sequence": sequence_number(5, 3),
        "enqueued_at": NOON,
        "delivery_count": 2,
        "content": content,
        "expires_at": None,
        "session_id": None,
        "partition_key": None,
        "marks": None,
        "state": 0,
        "locked_until": NOON + 30_000,
        "nonce": 77,
    }
    return StoredMessage(**(values | fields))  # type: ignore[arg-type]  # the test's own fields


# In


@given(HEADERS, IDS, st.integers(1, 13), BODIES, st.booleans())
def test_the_plain_way_in_says_what_the_careful_way_says(
    header: tuple[object, ...] | None,
    message_id: str,
    fields: int,
    body: tuple[SectionCode, object],
    is_id_wanted: bool,
) -> None:
    payload = _encoded(header, message_id, fields) + encode_section(*body)

    plain = _read_plain_message(payload, is_id_wanted=is_id_wanted)

    assert plain is not None
    assert plain == _read_message(payload, is_id_wanted=is_id_wanted)


def _read_one_by_one(
    payloads: list[bytes], *, is_id_wanted: bool
) -> tuple[list[bytes], list[bytes], list[int | None]]:
    messages = [read_message(each, is_id_wanted=is_id_wanted) for each in payloads]
    return (
        [message.content for message in messages],
        [message.message_id.encode() for message in messages] if is_id_wanted else [],
        [message.time_to_live_ms for message in messages],
    )


@given(st.lists(st.tuples(HEADERS, IDS, st.integers(1, 13), BODIES), max_size=4), st.booleans())
def test_messages_as_columns_say_what_they_say_one_by_one(
    messages: list[tuple[tuple[object, ...] | None, str, int, tuple[SectionCode, object]]],
    are_ids_wanted: bool,
) -> None:
    payloads = [
        _encoded(header, message_id, fields) + encode_section(*body)
        for header, message_id, fields, body in messages
    ]

    columns = read_plain_messages(payloads, are_ids_wanted=are_ids_wanted)

    assert columns == _read_one_by_one(payloads, is_id_wanted=are_ids_wanted)


@given(
    st.sampled_from([None, (True, None, None)]),
    BODIES,
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), min_size=1, max_size=2),
    st.integers(-2, 2),
    st.booleans(),
)
def test_what_differs_from_the_message_before_is_looked_at(
    header: tuple[object, ...] | None,
    body: tuple[SectionCode, object],
    changes: list[tuple[int, int]],
    longer: int,
    are_ids_wanted: bool,
) -> None:
    """However a message differs: as columns it is what it is by itself, or not a column at all."""
    before = _encoded(header, "an-id", 1) + encode_section(*body)
    changed = bytearray(before[:longer] if longer < 0 else before + bytes(longer))
    for at, byte in changes:
        changed[at % len(changed)] = byte
    payloads = [before, bytes(changed)]

    columns = read_plain_messages(payloads, are_ids_wanted=are_ids_wanted)

    if columns is not None:
        assert columns == _read_one_by_one(payloads, is_id_wanted=are_ids_wanted)
        assert _read_plain_message(payloads[1], is_id_wanted=are_ids_wanted) is not None


@pytest.mark.parametrize("message_id", ["", b"\xff\xfe"], ids=["none", "no text"])
def test_where_ids_are_wanted_one_that_is_no_key_is_no_column(message_id: str | bytes) -> None:
    encoded = message_id if isinstance(message_id, bytes) else message_id.encode()
    head = b"\x00\x53\x73\xc0" + bytes([len(encoded) + 3, 1, 0xA1, len(encoded)])
    payload = head + encoded + encode_section(SectionCode.DATA, b"body")

    assert read_plain_messages([payload], are_ids_wanted=True) is None
    assert read_plain_messages([payload], are_ids_wanted=False) is not None


def test_an_id_that_is_no_text_is_refused_where_it_is_wanted() -> None:
    whole = _encoded(None, "an-id", 1) + encode_section(SectionCode.DATA, b"body")
    payload = whole.replace(b"an-id", b"\xff\xfe\xfd\xfc\xfb")
    with pytest.raises(ArgumentInvalid):
        read_message(payload, is_id_wanted=True)


@given(st.binary(max_size=40), st.integers(0, 40))
def test_any_bytes_are_a_message_or_one_clear_refusal(tail: bytes, cut: int) -> None:
    whole = _encoded((True, None, None), "an-id", 13) + encode_section(SectionCode.DATA, b"body")
    for payload in (tail, whole[:cut] + tail, whole[: len(whole) - cut] + tail):
        for read in (read_message, read_batch):
            with contextlib.suppress(ArgumentInvalid):
                read(payload)


@given(st.binary(max_size=16), st.integers(0, 60), st.integers(0, 255))
def test_a_damaged_message_never_breaks_the_way_out(insert: bytes, at: int, byte: int) -> None:
    """What was let in can be delivered, changed and shown, whatever its bytes are."""
    whole = (
        _encoded((True, None, Uint(5)), "an-id", 13)
        + encode_section(SectionCode.APPLICATION_PROPERTIES, {"key": "value"})
        + encode_section(SectionCode.DATA, b"body")
    )
    payload = whole[:at] + insert + bytes((byte,)) + whole[at + 1 :]
    try:
        message = read_message(payload)
    except ArgumentInvalid:
        return
    stored = _stored(message.content)
    changed = stored._replace(marks=Marks("r", "d", "q", 1, encode_changes({"a": 1})))
    for each in (stored, changed):
        payload_of(each, Quick(is_locked=True, is_partitioned=True))
        careful_payload(each, is_locked=False, is_partitioned=False, is_body_left_out=True)


# Out


@given(
    HEADERS,
    st.dictionaries(
        st.sampled_from([Symbol("x-opt-partition-key"), Symbol("own")]),
        st.sampled_from(["", "a-session", "another"]),
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, NOON + 1000, NOON + 2**40]),
    st.sampled_from([None, "a-session"]),
    st.sampled_from([None, Marks(hops=1, enqueued_sequence=9), Marks(property_changes=b""), DEAD]),
)
def test_the_quick_way_out_says_what_the_careful_way_says(
    header: tuple[object, ...] | None,
    annotations: dict[Symbol, str],
    is_locked: bool,
    is_partitioned: bool,
    expires_at: int | None,
    session_id: str | None,
    marks: Marks | None,
) -> None:
    own = encode_section(SectionCode.MESSAGE_ANNOTATIONS, dict(annotations)) if annotations else b""
    head = b"" if header is None else encode_section(SectionCode.HEADER, list(header))
    payload = head + own + encode_properties(["id"]) + encode_section(SectionCode.DATA, b"x")
    content = read_message(payload).content
    stored = _stored(content, expires_at=expires_at, session_id=session_id, marks=marks)
    quick = Quick(is_locked=is_locked, is_partitioned=is_partitioned)

    fast = see(payload_of(stored, quick))
    careful = see(careful_payload(stored, is_locked=is_locked, is_partitioned=is_partitioned))

    assert fast == careful
    assert [type(value) for value in fast.header] == [type(value) for value in careful.header]
    assert {key: type(value) for key, value in fast.annotations.items()} == {
        key: type(value) for key, value in careful.annotations.items()
    }


def test_a_message_of_a_session_goes_the_quick_way_out_of_a_partitioned_queue_too() -> None:
    stored = _stored(join_content(b"", encode_properties(["id"])), session_id="a-session")
    payload = Quick(is_locked=True, is_partitioned=True).payload(stored)
    assert payload is not None
    assert see(payload).annotations["x-opt-partition-key"] == "a-session"


@pytest.mark.spec("R6")
def test_a_forwarded_message_goes_the_quick_way_out_too() -> None:
    marks = Marks(hops=2, enqueued_sequence=77)
    stored = _stored(join_content(b"", encode_properties(["id"])), marks=marks)
    payload = Quick(is_locked=True, is_partitioned=True).payload(stored)
    assert payload is not None
    assert see(payload).annotations["x-opt-enqueue-sequence-number"] == 77


def test_one_quick_builder_serves_messages_of_different_fragments_and_locks() -> None:
    quick = Quick(is_locked=True, is_partitioned=True)
    content = join_content(b"", encode_properties(["id"]))
    messages = [
        _stored(content, sequence=sequence_number(fragment, 1), locked_until=NOON + fragment)
        for fragment in (1, 2, 1, 15)
    ]

    seen = [see(payload_of(message, quick)) for message in messages]

    assert [each.annotations["x-opt-partition-id"] for each in seen] == [1, 2, 1, 15]
    assert [each.annotations["x-opt-locked-until"] - NOON for each in seen] == [1, 2, 1, 15]


@pytest.mark.spec("R4")
def test_dead_letters_say_where_they_come_from() -> None:
    marks = Marks("r", None, "orders", 42, None)
    content = join_content(b"", encode_properties(["id"]))

    seen = see(careful_payload(_stored(content, marks=marks), is_locked=True, is_partitioned=False))

    assert seen.annotations["x-opt-deadletter-source"] == "orders"
    assert seen.annotations["x-opt-enqueue-sequence-number"] == 42
    assert seen.application_properties == {"DeadLetterReason": "r"}


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=3)), max_size=4))
def test_joined_changes_are_applied_in_their_order(changes: list[dict[object, object]]) -> None:
    expected: dict[object, object] = {}
    for each in changes:
        expected |= each

    assert decode_changes(b"".join(map(encode_changes, changes))) == expected


# Tokens and stored bytes


@given(st.integers(1, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_tag_and_token_are_one_guid_in_two_byte_orders(sequence: int, nonce: int) -> None:
    lock = Lock(sequence, nonce)
    token = lock_token(lock)

    assert uuid.UUID(bytes_le=delivery_tag(sequence, nonce)) == token
    assert lock_of_token(token) == lock


@given(st.binary(max_size=600), st.binary(max_size=50))
def test_head_and_bare_message_are_kept_apart(head: bytes, bare: bytes) -> None:
    content = join_content(head, bare)

    found, start = split_content(content)

    assert (found, content[start:]) == (head, bare)


def test_a_head_says_what_the_sender_said() -> None:
    header = encode_section(SectionCode.HEADER, [True, Ubyte(7), Uint(9)])
    own: dict[object, object] = {Symbol("own"): 1}

    head = decode_head(header + encode_section(SectionCode.DELIVERY_ANNOTATIONS, own))

    assert (head.durable, head.priority, head.time_to_live_ms) == (True, 7, 9)
    assert (head.delivery_annotations, head.message_annotations) == (own, {})
    assert decode_head(b"").priority == 4
