"""Rows become the messages that a client would have sent; what cannot be one says why."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.decode import decode_value, skip_value
from bendybus.amqp.sections import (
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    find_sections,
    map_fields,
)
from bendybus.columns.arrow_types import arrow_schema
from bendybus.columns.one_by_one import read_content
from bendybus.columns.property_bytes import encode_property
from bendybus.columns.target import check_columns
from bendybus.content.incoming_message import read_message
from bendybus.content.stored_content import split_content
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.message import Message
from bendybus.model.partitioning import fragment_for, key_of
from tests.unit.columns.row_batches import (
    PARTS,
    TARGET,
    EncodedRows,
    batch_of,
    encode_rows,
    row_values,
)

FIELDS = {
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "content_type": 6,
    "session_id": 10,
    "reply_to_session_id": 12,
}


def only_group(encoded: EncodedRows) -> list[Message]:
    [messages] = encoded.groups.values()
    return list(messages)


def as_sent(content: bytes) -> bytes:
    """Return the bytes by which a client would have sent a message."""
    head, start = split_content(content)
    return head + content[start:]


@given(st.lists(row_values(), min_size=1, max_size=5))
def test_a_row_is_stored_as_the_message_that_a_client_would_have_sent(
    rows: list[dict[str, Any]],
) -> None:
    for message, row in zip(only_group(encode_rows(batch_of(rows), TARGET)), rows, strict=True):
        received = read_message(as_sent(message.content), is_id_wanted=True)
        assert received.content == message.content
        assert received.session_id == message.session_id == row["session_id"]
        assert received.partition_key == message.partition_key == row["partition_key"]
        assert received.scheduled_at == message.scheduled_at
        assert message.time_to_live_ms == row["time_to_live"]
        if row["message_id"]:
            assert received.message_id == row["message_id"]
        else:
            assert len(received.message_id) == 32


@given(st.lists(row_values(), min_size=1, max_size=5))
def test_what_a_row_says_is_what_the_message_says(rows: list[dict[str, Any]]) -> None:
    for message, row in zip(only_group(encode_rows(batch_of(rows), TARGET)), rows, strict=True):
        _, start = split_content(message.content)
        bare = message.content[start:]
        sections = {section.code: section for section in find_sections(bare)}
        fields = decode_list(bare, sections[SectionCode.PROPERTIES])
        assert {name: fields[at] for name, at in FIELDS.items()} == {
            name: row[name] for name in FIELDS
        }
        assert decode_section(bare, sections[SectionCode.DATA]) == (row["body"] or b"")
        wanted = {
            name: encode_property(kind=each["type"], text=each["value"])
            if each is not None
            else b"\x40"
            for name, each in row["application_properties"] or ()
        }
        assert encoded_properties(bare) == wanted
        expected_schedule = row["scheduled_enqueue_time"]
        assert message.scheduled_at == (
            None if expected_schedule is None else expected_schedule // 1000
        )


def encoded_properties(bare: bytes) -> dict[object, bytes]:
    """Return the encoding of every application property, by its name."""
    for section in find_sections(bare):
        if section.code == SectionCode.APPLICATION_PROPERTIES:
            assert decode_map(bare, section)
            count, at = map_fields(bare, section)
            found: dict[object, bytes] = {}
            for _ in range(count // 2):
                name, value = decode_value(bare, at)
                at = skip_value(bare, value)
                found[name] = bare[value:at]
            assert at == section.end
            return found
    return {}


@given(st.lists(row_values(), min_size=1, max_size=5))
def test_what_is_written_is_read_back(rows: list[dict[str, Any]]) -> None:
    for message, row in zip(only_group(encode_rows(batch_of(rows), TARGET)), rows, strict=True):
        read = read_content(message.content, None)
        for name in ("to", "subject", "reply_to", "correlation_id", "content_type"):
            assert read.texts.get(name) == row[name]
        assert (read.body_type, read.body) == ("data", row["body"] or b"")
        life = row["time_to_live"]
        assert read.time_to_live == (None if life is None else min(life, 0xFFFFFFFE))
        assert read.scheduled_at == message.scheduled_at
        given = dict(row["application_properties"] or ())
        assert read.properties.keys() == given.keys()
        for name, (kind, text) in read.properties.items():
            before = given[name] or {"type": "null", "value": None}
            assert encode_property(kind, text) == encode_property(before["type"], before["value"])
            assert text is None or kind == before["type"]


@pytest.mark.spec("R2.1")
@given(st.lists(row_values(), min_size=1, max_size=8), st.booleans())
def test_each_row_goes_to_the_fragment_of_its_key(
    rows: list[dict[str, Any]], has_duplicate_detection: bool
) -> None:
    target = PARTS._replace(has_duplicate_detection=has_duplicate_detection)
    encoded = encode_rows(batch_of(rows), target)
    assert encoded.rows == len(rows)
    for fragment, messages in encoded.groups.items():
        for message in messages:
            key = key_of(message, has_duplicate_detection=has_duplicate_detection)
            assert fragment == (None if key is None else fragment_for(key, 16))
            assert bool(message.message_id) is has_duplicate_detection


@given(st.lists(st.sampled_from("abc") | st.none(), min_size=1, max_size=30))
def test_rows_of_a_key_keep_their_order(keys: list[str | None]) -> None:
    rows = [{"partition_key": key, "body": b"%d" % at} for at, key in enumerate(keys)]
    encoded = encode_rows(batch_of(rows, ("partition_key", "body")), PARTS)
    for messages in encoded.groups.values():
        places = [int(message.content.rpartition(b"\xa0")[2][1:]) for message in messages]
        assert places == sorted(places)


def test_columns_that_are_not_there_are_empty() -> None:
    [message] = only_group(encode_rows(batch_of([{"body": b"x"}], ("body",)), TARGET))
    assert message == Message(message.content)
    assert message.content.endswith(b"\x00\x53\x75\xa0\x01x")


def test_a_text_is_a_body_and_texts_are_properties() -> None:
    properties = pa.map_(pa.string(), pa.string())
    batch = pa.record_batch(
        [pa.array(["tür"]), pa.array([[("colour", "rot"), ("none", None)]], properties)],
        names=["body", "application_properties"],
    )
    check_columns(batch.schema, TARGET)
    [message] = only_group(encode_rows(batch, TARGET))
    _, start = split_content(message.content)
    bare = message.content[start:]
    assert bare.endswith("tür".encode())
    assert encoded_properties(bare) == {"colour": b"\xa1\x03rot", "none": b"\x40"}


@pytest.mark.parametrize("kind", [pa.large_string(), pa.large_binary(), pa.binary(), pa.string()])
def test_bodies_of_any_text_or_binary_type_are_the_same(kind: pa.DataType) -> None:
    batch = pa.record_batch([pa.array([b"one", None, b"two"]).cast(kind)], names=["body"])
    contents = [message.content for message in only_group(encode_rows(batch, TARGET))]
    assert [content.rpartition(b"\x53\x75")[2] for content in contents] == [
        b"\xa0\x03one",
        b"\xa0\x00",
        b"\xa0\x03two",
    ]


def test_a_slice_of_a_batch_is_encoded_as_if_it_were_alone() -> None:
    rows = [
        {
            "message_id": str(at),
            "subject": "s" * at,
            "body": b"b" * at,
            "application_properties": [(str(at), {"type": "int", "value": str(at)})] * (at % 3),
        }
        for at in range(9)
    ]
    names = tuple(rows[0])
    part = encode_rows(batch_of(rows, names).slice(4, 3), TARGET)
    alone = encode_rows(batch_of(rows[4:7], names), TARGET)
    assert only_group(part) == only_group(alone)


def test_no_rows_make_no_messages() -> None:
    assert encode_rows(batch_of([]), TARGET).groups == {}
    assert encode_rows(batch_of([]), PARTS).groups == {}


LONG = "k" * 129
BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"message_id": LONG}, "its message_id has 129 characters; it may have 128"),
    ({"session_id": LONG}, "its session_id has 129 characters"),
    ({"partition_key": LONG}, "its partition_key has 129 characters"),
    ({"session_id": "a", "partition_key": "b"}, "its partition_key differs from its session_id"),
    ({"content_type": "tür"}, "its content_type must be ASCII, not 'tür'"),
    ({"time_to_live": -1}, "its time_to_live must be a number of milliseconds, not -1"),
    ({"scheduled_enqueue_time": 2**58}, "its scheduled_enqueue_time must be before the year 10000"),
    ({"body": bytes(256 * 1024)}, "a message may have 262144"),
    (
        {"application_properties": [("p", {"type": "int", "value": "1.5"})]},
        "its property 'p' has the value '1.5', which is no int: write it in digits",
    ),
    (
        {"application_properties": [("p", {"type": "strin", "value": "x"})]},
        "its property 'p' has the unknown type 'strin'; did you mean 'string'?",
    ),
    (
        {"application_properties": [("p", {"type": None, "value": "x"})]},
        "its property 'p' has the value 'x' and no type",
    ),
    (
        {"application_properties": [("p", {"type": "ubyte", "value": "256"})]},
        "its property 'p' has the value '256', which is no ubyte",
    ),
    (
        {"application_properties": [("p", {"type": "string", "value": "x" * 32769})]},
        "its property 'p' is larger than 32768 bytes",
    ),
    (
        {
            "application_properties": [
                (str(at), {"type": "string", "value": "x" * 30_000}) for at in range(3)
            ]
        },
        "all together they may have 65536",
    ),
    (
        {"application_properties": [("p", {"type": "amqp", "value": "QUFB"})]},
        "its property 'p' has the value 'QUFB', which is no amqp: 2 bytes are too many",
    ),
]


@pytest.mark.parametrize(("row", "why"), BAD_ROWS, ids=range(len(BAD_ROWS)))
def test_a_row_that_cannot_be_a_message_is_named_with_its_reason(
    row: dict[str, Any], why: str
) -> None:
    rows = [{"subject": "good", "body": b"1"}, row, {"subject": "good", "body": b"2"}]
    with pytest.raises(ArgumentInvalid) as refusal:
        encode_rows(batch_of(rows), TARGET, first_row=100)
    assert refusal.value.message.startswith("Row 101 (message_id=")
    assert why in refusal.value.message

    encoded = encode_rows(batch_of(rows), TARGET, first_row=100, rejects=True)
    assert [message.content[-1:] for message in only_group(encoded)] == [b"1", b"2"]
    assert [(each.row, why in each.why) for each in encoded.rejected] == [(101, True)]


def test_a_row_is_named_by_its_values() -> None:
    rows = [{"message_id": "m1", "session_id": "s" * 200, "subject": "late", "body": b"z" * 99}]
    with pytest.raises(
        ArgumentInvalid, match=r"message_id='m1', session_id='sss.*\(200 char"
    ) as why:
        encode_rows(batch_of(rows), TARGET)
    assert "subject='late', body=b'zzz" in why.value.message
    assert "(99 bytes)" in why.value.message


def test_rows_without_a_session_are_refused_where_sessions_are_required() -> None:
    target = TARGET._replace(requires_session=True)
    rows: list[dict[str, Any]] = [{"session_id": "a", "body": b"1"}, {"body": b"2"}]
    with pytest.raises(ArgumentInvalid, match="'orders' requires sessions, and it has no session_"):
        encode_rows(batch_of(rows), target)
    encoded = encode_rows(batch_of(rows), target, rejects=True)
    assert (encoded.rows, [each.row for each in encoded.rejected]) == (1, [1])


def test_when_no_row_is_a_message_all_are_rejected() -> None:
    rows: list[dict[str, Any]] = [{"session_id": LONG}, {"session_id": LONG}]
    for target in (TARGET, PARTS):
        encoded = encode_rows(batch_of(rows), target, rejects=True)
        assert (encoded.groups, len(encoded.rejected)) == ({}, 2)
    with pytest.raises(ArgumentInvalid, match="1 other rows cannot be messages, either"):
        encode_rows(batch_of(rows), TARGET)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"boddy": pa.binary()}, "no column 'boddy'. Did you mean 'body'?"),
        ({"body": pa.int32()}, "'body' is int32; it must be BINARY or STRING"),
        ({"subject": pa.int32()}, "'subject' is int32; it must be STRING"),
        ({"time_to_live": pa.string()}, "'time_to_live' is string; it must be BIGINT"),
        ({"scheduled_enqueue_time": pa.int64()}, "it must be TIMESTAMP"),
        ({"application_properties": pa.string()}, "or MAP<STRING, STRING>"),
        ({"application_properties": pa.map_(pa.string(), pa.int32())}, "or MAP<STRING, STRING>"),
        ({"state": pa.string()}, "No column can be written"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(
    columns: dict[str, pa.DataType], why: str
) -> None:
    with pytest.raises(ArgumentInvalid) as refusal:
        check_columns(pa.schema(list(columns.items())), TARGET)
    assert why in refusal.value.message


def test_a_column_of_sessions_is_needed_where_they_are_required() -> None:
    with pytest.raises(ArgumentInvalid, match="have no column 'session_id'"):
        check_columns(pa.schema([("body", pa.binary())]), TARGET._replace(requires_session=True))


def test_all_columns_that_can_be_read_are_taken() -> None:
    check_columns(arrow_schema(), TARGET)


def bodies_of(bodies: list[bytes], kinds: list[str | None]) -> list[bytes]:
    """Encode bodies of some kinds; return the section of each."""
    batch = pa.record_batch(
        [pa.array(bodies), pa.array(kinds, pa.string())], names=["body", "body_type"]
    )
    check_columns(batch.schema, TARGET)
    found: list[bytes] = []
    for message in only_group(encode_rows(batch, TARGET)):
        bare = message.content[split_content(message.content)[1] :]
        assert read_message(bare).content == message.content
        found.append(bare[find_sections(bare)[-1].start :])
    return found


def test_a_body_can_be_anything_that_a_message_can_have() -> None:
    assert bodies_of(
        [b"1", b"2", "ü".encode(), b"\xff", b"\x41", b"\xc0\x02\x01\x41"],
        [None, "data", "text", "binary", "value", "sequence"],
    ) == [
        b"\x00\x53\x75\xa0\x011",
        b"\x00\x53\x75\xa0\x012",
        b"\x00\x53\x77" + b"\xa1\x02" + "ü".encode(),
        b"\x00\x53\x77\xa0\x01\xff",
        b"\x00\x53\x77\x41",
        b"\x00\x53\x76\xc0\x02\x01\x41",
    ]


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        (b"x", "txt", "its body_type is 'txt'; did you mean 'text'?"),
        (b"\xff", "text", "its body is no text"),
        (b"\x41\x41", "value", "its body is no value: 1 bytes are too many"),
        (b"", "value", "its body is no value"),
        (b"\x41", "sequence", "its body is no sequence: it is no list"),
    ],
)
def test_a_body_that_is_not_what_it_says_is_refused(body: bytes, kind: str, why: str) -> None:
    with pytest.raises(ArgumentInvalid, match=why.replace("?", ".")):
        bodies_of([b"good", body], ["data", kind])
