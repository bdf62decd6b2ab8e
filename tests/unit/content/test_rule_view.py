"""Messages as rules see them: every property where the language says it is, and copies changed."""

import uuid
from typing import Any

import pytest

from bendybus.amqp.sections import SectionCode, encode_properties, encode_section, find_sections
from bendybus.amqp.values import Described, Symbol, Timestamp, Uint, Ulong
from bendybus.content.incoming_message import read_message
from bendybus.content.rule_view import WireContentReader
from bendybus.content.stored_content import decode_head, split_content
from bendybus.model.ids import Instant
from bendybus.model.message import Marks, Message
from bendybus.model.message_view import SYSTEM_PROPERTIES
from bendybus.model.rule_actions import Changes, Written
from bendybus.model.sql_values import FilterFailed
from bendybus.model.time_values import Moment, Span

READER = WireContentReader()
NOW = Instant(1_000_000)
FIELDS: list[object] = [
    *("id", None, "to", "label", "back", "correlation", Symbol("text/plain")),
    *(None, None, None, "session", None, "reply-session"),
]
BODY = encode_section(SectionCode.DATA, b"body") + encode_section(SectionCode.FOOTER, {"f": 1})


def full(**properties: object) -> Message:
    """A message that says everything."""
    annotations: dict[object, object] = {
        Symbol("x-opt-partition-key"): "session",
        Symbol("x-opt-via-partition-key"): "via",
        Symbol("x-own"): 5,
        Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOW - 5),
    }
    return read_message(
        encode_section(SectionCode.HEADER, [True, None, Uint(5000)])
        + encode_section(SectionCode.MESSAGE_ANNOTATIONS, annotations)
        + encode_properties(FIELDS)
        + encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
        + BODY
    )


def changes(
    system: dict[str, str | None] | None = None,
    user: dict[str, object] | None = None,
    removed: frozenset[str] = frozenset(),
) -> Changes:
    """What an action wants."""
    written = {name.lower(): Written(name, value) for name, value in (user or {}).items()}
    return Changes(system or {}, written, removed)


@pytest.mark.spec("R4")
def test_every_system_property_is_what_the_message_says_or_nothing() -> None:
    message = full()
    message.marks = Marks(dead_letter_source="there")
    view = READER.view(message, NOW)

    assert {name: view.system(name) for name in sorted(SYSTEM_PROPERTIES)} == {
        "ContentType": "text/plain",
        "CorrelationId": "correlation",
        "DeadLetterSource": "there",
        "DeliveryCount": 0,
        "EnqueuedSequenceNumber": None,
        "EnqueuedTimeUtc": NOW,
        "ExpiresAtUtc": NOW + 5000,
        "ForcePersistence": None,
        "Label": "label",
        "LockToken": None,
        "LockedUntilUtc": None,
        "MessageId": "id",
        "PartitionKey": "session",
        "ReplyTo": "back",
        "ReplyToSessionId": "reply-session",
        "ScheduledEnqueueTimeUtc": NOW - 5,
        "SequenceNumber": None,
        "SessionId": "session",
        "Size": len(message.content),
        "State": 0,
        "TimeToLive": 5000,
        "To": "to",
        "ViaPartitionKey": "via",
    }


def test_a_message_that_says_nothing_has_no_properties() -> None:
    view = READER.view(read_message(encode_section(SectionCode.DATA, b"x")), NOW)

    assert dict(view.user) == {}
    silent = SYSTEM_PROPERTIES - {"MessageId", "Size", "State", "DeliveryCount", "EnqueuedTimeUtc"}
    assert {view.system(name) for name in silent} == {None}


@pytest.mark.parametrize(
    ("given", "text"),
    [(uuid.UUID(int=5), str(uuid.UUID(int=5))), (Ulong(7), "7"), (b"a\xff", "a\xff"), ("x", "x")],
)
def test_an_id_is_compared_by_its_text_whatever_its_type(given: object, text: str) -> None:
    payload = encode_properties([given, None, None, None, None, given]) + BODY
    view = READER.view(read_message(payload), NOW)

    assert view.system("MessageId") == view.system("CorrelationId") == text


def test_names_of_the_user_are_found_whatever_their_case_or_type() -> None:
    properties: dict[Any, object] = {"Colour": "red", Symbol("Size"): 3}
    view = READER.view(full(**properties), NOW)

    assert view.user == {"colour": "red", "size": 3}


@pytest.mark.spec("R4")
def test_a_changed_copy_keeps_all_that_was_not_changed() -> None:
    message = full(colour="red", size=3, gone=1)
    copy = READER.changed(
        message,
        changes({"Label": "new", "To": None}, {"COLOUR": "blue", "added": 7}, frozenset({"gone"})),
    )
    view = READER.view(copy, NOW)

    assert copy.content.endswith(BODY)
    assert dict(view.user) == {"size": 3, "colour": "blue", "added": 7}
    assert [view.system(name) for name in ("Label", "To", "ReplyTo")] == ["new", None, "back"]
    assert (copy.session_id, copy.partition_key, copy.time_to_live_ms) == (
        "session",
        "session",
        5000,
    )
    before, after = (decode_head(split_content(each.content)[0]) for each in (message, copy))
    assert before == after
    assert READER.view(message, NOW).user["colour"] == "red"


def test_times_and_durations_of_a_rule_have_their_own_types_on_the_wire() -> None:
    written: dict[str, object] = {
        "at": Moment.from_text("2020-07-05T11:12:13Z"),
        "for": Span.from_text("PT1.5S"),
    }
    user = READER.view(READER.changed(full(), changes(user=written)), NOW).user

    assert (type(user["at"]), user["at"]) == (Timestamp, 1_593_947_533_000)
    assert user["for"] == Described(Symbol("com.microsoft:timespan"), 15_000_000)


def test_keys_that_are_changed_are_changed_wherever_they_are_kept() -> None:
    copy = READER.changed(
        full(),
        changes({"SessionId": "s", "PartitionKey": "s", "ViaPartitionKey": None, "MessageId": "m"}),
    )
    annotations = decode_head(split_content(copy.content)[0]).message_annotations

    assert (copy.session_id, copy.partition_key, copy.message_id) == ("s", "s", "m")
    assert annotations == {
        "x-opt-partition-key": "s",
        "x-own": 5,
        "x-opt-scheduled-enqueue-time": NOW - 5,
    }
    bare = copy.content[split_content(copy.content)[1] :]
    assert [section.code for section in find_sections(bare)] == [0x73, 0x74, 0x75, 0x78]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((SectionCode.DATA, b"old"), (SectionCode.DATA, b"new")),
        ((SectionCode.AMQP_VALUE, "old"), (SectionCode.AMQP_VALUE, "new")),
        ((SectionCode.AMQP_VALUE, b"old"), (SectionCode.DATA, b"new")),
        ((SectionCode.AMQP_VALUE, 7), (SectionCode.DATA, b"new")),
        ((SectionCode.AMQP_SEQUENCE, [1, 2]), (SectionCode.DATA, b"new")),
    ],
)
@pytest.mark.spec("R9.2")
def test_a_body_that_is_a_text_stays_one_and_any_other_becomes_data(
    before: tuple[SectionCode, object], after: tuple[SectionCode, object]
) -> None:
    footer = encode_section(SectionCode.FOOTER, {"f": 1})
    message = read_message(encode_properties(["id"]) + encode_section(*before) + footer)
    copy = READER.changed(message, Changes({}, {}, frozenset(), b"new"))
    assert copy.content.endswith(encode_section(*after) + footer)


def test_a_text_is_not_replaced_by_what_is_none() -> None:
    message = read_message(encode_properties(["id"]) + encode_section(SectionCode.AMQP_VALUE, "a"))
    with pytest.raises(FilterFailed, match="no UTF-8"):
        READER.changed(message, Changes({}, {}, frozenset(), b"\xff"))


def test_annotations_that_are_all_taken_away_leave_no_section() -> None:
    payload = encode_section(SectionCode.MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): "k"})
    message = read_message(payload + encode_properties(["id"]) + BODY)
    copy = READER.changed(message, changes({"PartitionKey": None}))

    assert copy.partition_key is None
    assert split_content(copy.content)[0] == b""


@pytest.mark.parametrize(
    ("value", "text"), [("x" * 70_000, "more than 65536 bytes"), (2**70, "cannot be written")]
)
def test_changes_that_no_message_can_have_are_a_failure(value: object, text: str) -> None:
    with pytest.raises(FilterFailed, match=text):
        READER.changed(full(), changes(user={"a": value}))
