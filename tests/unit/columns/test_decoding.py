"""Contents read side by side say what they say one by one, whatever shape they have."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.encode import encode_value
from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import (
    AmqpArray,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)
from bendybus.columns.arrow_types import arrow_schema
from bendybus.columns.decoding import needs_contents, record_batch
from bendybus.columns.one_by_one import PROPERTY_FIELDS, read_content
from bendybus.columns.schema import COLUMNS
from bendybus.content.incoming_message import read_message
from bendybus.content.outgoing_message import encode_changes
from bendybus.model.ids import sequence_number
from bendybus.model.message import Marks, MessageState, StoredMessage
from bendybus.store.sql.careful_scan import scanned_of

NOON = 1_800_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

texts = st.text(max_size=20)
symbols = st.text(st.characters(max_codepoint=127), max_size=20).map(Symbol)
binaries = st.binary(max_size=20)
whole = st.integers(-(1 << 63), (1 << 63) - 1)
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    texts,
    symbols,
    binaries,
    st.integers(0, 255).map(Ubyte),
    st.integers(0, (1 << 16) - 1).map(Ushort),
    st.integers(0, (1 << 32) - 1).map(Uint),
    st.integers(0, (1 << 64) - 1).map(Ulong),
    st.integers(0, 3).map(Ulong),
    st.integers(-128, 127).map(Byte),
    st.integers(-(1 << 15), (1 << 15) - 1).map(Short),
    st.integers(-(1 << 31), (1 << 31) - 1).map(Int),
    st.integers(-200, 200).map(Int),
    whole.map(Long),
    st.integers(-200, 200).map(Long),
    whole.map(Timestamp),
    st.integers(0, 1 << 42).map(Timestamp),
    st.floats(),
    st.floats(width=32).map(Float),
    st.characters(exclude_categories=["Cs"]).map(Char),
    st.uuids(),
    st.binary(min_size=4, max_size=4).map(Decimal32),
    st.binary(min_size=8, max_size=8).map(Decimal64),
    st.binary(min_size=16, max_size=16).map(Decimal128),
)
compounds: st.SearchStrategy[Any] = st.one_of(
    st.lists(scalars, max_size=3),
    st.dictionaries(texts, scalars, max_size=3),
    st.builds(Described, symbols, scalars),
    st.sampled_from(
        [
            Described(Symbol("com.microsoft:timespan"), Long(864_000_000_000)),
            Described(Symbol("com.microsoft:datetime-offset"), Long(638_000_000_000_000_000)),
            Described(Symbol("com.microsoft:uri"), "http://example.org/"),
            AmqpArray(Int, (Int(1), Int(2))),
        ]
    ),
)
ids = st.one_of(st.none(), texts, texts, texts, binaries, st.uuids(), st.just(Ulong(7)))
short_texts = st.one_of(st.none(), texts)
fields = st.tuples(
    ids,
    st.one_of(st.none(), binaries),
    short_texts,
    short_texts,
    short_texts,
    ids,
    st.one_of(st.none(), symbols),
    st.one_of(st.none(), symbols),
    st.one_of(st.none(), whole.map(Timestamp)),
    st.one_of(st.none(), whole.map(Timestamp)),
    short_texts,
    st.one_of(st.none(), st.integers(0, (1 << 32) - 1).map(Uint)),
    short_texts,
).map(list)
names = st.one_of(texts, texts, symbols)
properties = st.dictionaries(
    st.one_of(st.sampled_from(["a", "b", "colour"]), names),
    st.one_of(scalars, scalars, scalars, compounds),
    max_size=5,
)
annotations = st.fixed_dictionaries(
    {},
    optional={
        Symbol("x-opt-partition-key"): texts,
        Symbol("x-opt-via-partition-key"): texts,
        Symbol("x-opt-scheduled-enqueue-time"): st.integers(0, 1 << 47).map(Timestamp),
        Symbol("x-opt-else"): scalars,
    },
)
headers = st.lists(
    st.one_of(st.none(), st.booleans(), st.just(Ubyte(3)), st.just(Uint(5000)), st.just(Uint(0))),
    max_size=5,
)
bodies: st.SearchStrategy[list[bytes]] = st.one_of(
    binaries.map(lambda data: [encode_section(SectionCode.DATA, data)]),
    st.just([encode_section(SectionCode.DATA, b"x" * 300)]),
    st.lists(binaries.map(lambda data: encode_section(SectionCode.DATA, data)), max_size=3),
    st.one_of(scalars, compounds).map(
        lambda value: [encode_section(SectionCode.AMQP_VALUE, value)]
    ),
    st.lists(
        st.lists(scalars, max_size=3).map(
            lambda items: encode_section(SectionCode.AMQP_SEQUENCE, items)
        ),
        min_size=1,
        max_size=2,
    ),
)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Draw a message as a client may send it."""
    parts: list[bytes] = []
    if draw(st.booleans()):
        parts.append(encode_section(SectionCode.HEADER, draw(headers)))
    if draw(st.integers(0, 3)) == 0:
        parts.append(encode_section(SectionCode.MESSAGE_ANNOTATIONS, draw(annotations)))
    drawn = draw(fields)
    cut = draw(st.sampled_from([13, 13, 13, 1, 6, 11]))
    if draw(st.integers(0, 9)):
        if drawn[10] is not None:
            parts = [each for each in parts if not each.startswith(b"\x00\x53\x72")]
        parts.append(encode_section(SectionCode.PROPERTIES, drawn[:cut]))
    if draw(st.booleans()):
        parts.append(encode_section(SectionCode.APPLICATION_PROPERTIES, draw(properties)))
    parts += draw(bodies)
    if draw(st.integers(0, 9)) == 0:
        parts.append(encode_section(SectionCode.FOOTER, {Symbol("a"): "b"}))
    return b"".join(parts)


def changes_of(changes: Mapping[str, object]) -> bytes:
    """Encode what a receiver changed."""
    return encode_changes(dict(changes.items()))


marks = st.builds(
    Marks,
    dead_letter_reason=short_texts,
    dead_letter_description=short_texts,
    dead_letter_source=short_texts,
    property_changes=st.one_of(
        st.none(),
        st.dictionaries(texts, scalars, max_size=2).map(changes_of),
    ),
    hops=st.sampled_from([None, 1]),
)


@st.composite
def stored(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> StoredMessage:
    """Draw a message as a store keeps it."""
    expires_at = draw(st.one_of(st.none(), st.integers(NOON, NOON + (1 << 40))))
    return StoredMessage(
        sequence=sequence_number(draw(st.integers(0, 15)), draw(st.integers(1, 1 << 40))),
        enqueued_at=NOON,
        delivery_count=draw(st.integers(0, 9)),
        content=draw(contents),
        expires_at=expires_at,
        session_id=draw(short_texts),
        partition_key=draw(short_texts),
        marks=draw(st.one_of(st.none(), st.none(), marks)),
        state=draw(st.sampled_from([MessageState.ACTIVE, MessageState.DEFERRED])),
        locked_until=None,
        nonce=None,
    )


def moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)


def expected(message: StoredMessage, *, is_partitioned: bool) -> dict[str, object]:
    """Say of one message what its row must be."""
    plain = read_content(message.content, message.marks)
    time_to_live = plain.time_to_live
    if message.expires_at is not None:
        time_to_live = message.expires_at - message.enqueued_at
    key = message.partition_key
    if key is None and is_partitioned:
        key = message.session_id
    said = message.marks or Marks()
    return {
        "fragment": message.sequence >> 48,
        "sequence_number": message.sequence,
        "enqueued_time": moment(message.enqueued_at),
        "state": MessageState(message.state).name.lower(),
        **{name: plain.texts.get(name) for name in PROPERTY_FIELDS.values()},
        "session_id": message.session_id,
        "partition_key": key,
        "time_to_live": time_to_live,
        "expires_at": moment(message.expires_at),
        "scheduled_enqueue_time": moment(plain.scheduled_at),
        "delivery_count": message.delivery_count,
        "dead_letter_reason": said.dead_letter_reason,
        "dead_letter_error_description": said.dead_letter_description,
        "dead_letter_source": said.dead_letter_source,
        "application_properties": [
            (name, {"type": kind, "value": text}) for name, (kind, text) in plain.properties.items()
        ],
        "body": plain.body,
        "body_type": plain.body_type,
    }


def batch_of(messages: list[StoredMessage], *, is_partitioned: bool = False) -> pa.RecordBatch:
    batch = record_batch(
        scanned_of(messages, None, has_contents=True), is_partitioned=is_partitioned
    )
    batch.validate(full=True)
    assert batch.schema == arrow_schema()
    return batch


good_contents = payloads().map(lambda payload: read_message(payload).content)


@given(st.lists(stored(good_contents), max_size=6), st.booleans())
def test_side_by_side_says_the_same_as_one_by_one(
    messages: list[StoredMessage], is_partitioned: bool
) -> None:
    batch = batch_of(messages, is_partitioned=is_partitioned)
    rows = [expected(each, is_partitioned=is_partitioned) for each in messages]
    assert batch.to_pylist() == rows


@given(st.lists(stored(st.binary(max_size=60)), min_size=1, max_size=5))
def test_bytes_that_are_no_message_make_a_row_all_the_same(messages: list[StoredMessage]) -> None:
    assert batch_of(messages).num_rows == len(messages)


@given(st.data(), st.lists(stored(good_contents), min_size=1, max_size=3))
def test_a_changed_byte_never_stops_the_others(
    data: st.DataObject, messages: list[StoredMessage]
) -> None:
    at = data.draw(st.integers(0, len(messages) - 1))
    content = bytearray(messages[at].content)
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    changed = [*messages[:at], messages[at]._replace(content=bytes(content)), *messages[at + 1 :]]
    rows = batch_of(changed).to_pylist()
    for index, message in enumerate(messages):
        if index != at:
            assert rows[index] == expected(message, is_partitioned=False)


def test_one_name_given_twice_counts_once_as_the_later() -> None:
    pairs = [("colour", "red"), ("size", Int(3)), ("colour", "blue")]
    encoded = b"".join(encode_value(name) + encode_value(value) for name, value in pairs)
    section = b"\x00\x53\x74\xc1" + bytes((len(encoded) + 1, 6)) + encoded
    bare = encode_properties(["id"]) + section + encode_section(SectionCode.DATA, b"x")
    message = a_message(b"\x00" + bare)
    [row] = batch_of([message]).to_pylist()
    assert dict(row["application_properties"])["colour"] == {"type": "string", "value": "blue"}
    assert len(row["application_properties"]) == 2


def test_text_that_is_not_utf8_is_shown_with_replacement_characters() -> None:
    bare = b"\x00\x53\x73\xc0\x05\x01\xa1\x02\xff\xfe" + encode_section(SectionCode.DATA, b"x")
    good = a_message(b"\x00" + encode_properties(["id"]) + encode_section(SectionCode.DATA, b"y"))
    rows = batch_of([a_message(b"\x00" + bare), good]).to_pylist()
    assert [row["message_id"] for row in rows] == ["\ufffd\ufffd", "id"]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_column_can_be_asked_for_alone(name: str) -> None:
    message = a_message(
        read_message(encode_properties(["id"]) + encode_section(SectionCode.DATA, b"x")).content
    )
    scanned = scanned_of([message], None, has_contents=needs_contents([name]))
    batch = record_batch(scanned, [name], is_partitioned=True)
    assert batch.to_pylist() == [{name: expected(message, is_partitioned=True)[name]}]


def a_message(content: bytes) -> StoredMessage:
    """A message with nothing beside its content."""
    return StoredMessage(1, NOON, 0, content, None, None, None, None, 0, None, None)


def test_every_type_of_property_keeps_its_name_and_its_value() -> None:
    number = uuid.UUID("b4dd2ac8-3f3f-4b8c-9d0a-0a1b2c3d4e5f")
    shown = {
        "text": ("hé", "string", "hé"),
        "nothing": (None, "null", None),
        "int": (Int(-70000), "int", "-70000"),
        "long": (Long(1 << 40), "long", "1099511627776"),
        "double": (1.0, "double", "1.0"),
        "yes": (True, "boolean", "true"),
        "uuid": (number, "uuid", str(number)),
        "time": (Timestamp(1_800_000_000_123), "timestamp", "2027-01-15T08:00:00.123Z"),
        "bytes": (b"\x00\xff", "binary", "AP8="),
        "decimal": (Decimal128(bytes(16)), "decimal128", "00" * 16),
        "span": (
            Described(Symbol("com.microsoft:timespan"), Long(10)),
            "com.microsoft:timespan",
            "10",
        ),
        "list": ([Int(1)], "amqp", "wAMBVAE="),
    }
    for names_together in ([*shown], [name for name in shown if name not in ("bytes", "list")]):
        section = encode_section(
            SectionCode.APPLICATION_PROPERTIES, {name: shown[name][0] for name in names_together}
        )
        payload = encode_properties(["id"]) + section + encode_section(SectionCode.DATA, b"")
        [row] = batch_of([a_message(read_message(payload).content)]).to_pylist()
        assert row["application_properties"] == [
            (name, {"type": shown[name][1], "value": shown[name][2]}) for name in names_together
        ]


COMMON_PROPERTIES: dict[object, object] = {
    "text": "red",
    Symbol("symbol"): Symbol("blue"),
    "null": None,
    "yes": True,
    "ubyte": Ubyte(200),
    "ushort": Ushort(60_000),
    "uint": Uint(0),
    "ulong": Ulong(1 << 63),
    "byte": Byte(-3),
    "short": Short(-300),
    "int": Int(7),
    "long": Long(-(1 << 40)),
    "double": 0.1,
    "time": Timestamp(NOON),
    "uuid": uuid.UUID(int=5),
}


@pytest.mark.parametrize("is_varied", [False, True], ids=["alike", "varied"])
@pytest.mark.parametrize("body", [b"x", b"x" * 300, "text"], ids=["short", "long", "text"])
def test_common_shapes_are_never_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, is_varied: bool, body: bytes | str
) -> None:
    section = SectionCode.DATA if isinstance(body, bytes) else SectionCode.AMQP_VALUE
    messages: list[StoredMessage] = []
    for number in range(6):
        user = COMMON_PROPERTIES
        if is_varied:
            user = dict(list(COMMON_PROPERTIES.items())[number:])
        parts = [
            encode_section(SectionCode.HEADER, [True, Ubyte(4), Uint(5000)]),
            encode_section(
                SectionCode.MESSAGE_ANNOTATIONS,
                {
                    Symbol("x-opt-partition-key"): "k",
                    Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOON),
                },
            ),
            encode_properties(["id", b"user", "to", "subject", None, "c", Symbol("text/plain")]),
            encode_section(SectionCode.APPLICATION_PROPERTIES, user),
            encode_section(section, body),
        ]
        if is_varied and number % 2:
            del parts[:2]
        messages.append(a_message(read_message(b"".join(parts)).content))
    rows = [expected(each, is_partitioned=False) for each in messages]
    monkeypatch.setattr("bendybus.columns.decoding.read_content", None)
    assert batch_of(messages).to_pylist() == rows
