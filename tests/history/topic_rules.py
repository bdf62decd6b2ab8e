"""Rules for the histories of topics, and what each of them means, said a second time in Python."""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple
from uuid import uuid4

from bendybus.amqp.sections import (
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.content.incoming_message import read_message
from bendybus.content.rule_view import WireContentReader
from bendybus.content.stored_content import split_content
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.rule import CorrelationFilter, FalseFilter, Rule, SqlAction, SqlFilter
from bendybus.model.rule_actions import compile_action

LABEL_FIELD: Final = 3


class Note(NamedTuple):
    """What a message is about, as far as rules look at it."""

    colour: str | None
    label: str | None
    number: int | None


class Verdict(Enum):
    """What a filter says of a message."""

    LETS_IN = "it matches"
    LEAVES_OUT = "it does not match"
    FAILS = "it cannot be evaluated"


class KnownRule(NamedTuple):
    """A rule, what its filter says, and how its action changes a message."""

    rule: Rule
    judge: Callable[[Note], Verdict]
    change: Callable[[Note], Note] | None = None


def _lets_in_if(condition: bool) -> Verdict:
    return Verdict.LETS_IN if condition else Verdict.LEAVES_OUT


def _divide_by_zero(note: Note) -> Verdict:
    return Verdict.LEAVES_OUT if note.number is None else Verdict.FAILS


RULES: Final = (
    KnownRule(Rule("all"), lambda _: Verdict.LETS_IN),
    KnownRule(Rule("none", FalseFilter()), lambda _: Verdict.LEAVES_OUT),
    KnownRule(
        Rule("red", SqlFilter("colour = 'red' OR number > 5")),
        lambda note: _lets_in_if(note.colour == "red" or (note.number or 0) > 5),
    ),
    KnownRule(
        Rule("big", CorrelationFilter(label="big")), lambda note: _lets_in_if(note.label == "big")
    ),
    KnownRule(
        Rule("repaint", SqlFilter("colour = 'red'"), SqlAction("SET colour = 'blue'")),
        lambda note: _lets_in_if(note.colour == "red"),
        lambda note: note._replace(colour="blue"),
    ),
    KnownRule(
        Rule("relabel", CorrelationFilter(label="big"), SqlAction("SET sys.Label = 'huge'")),
        lambda note: _lets_in_if(note.label == "big"),
        lambda note: note._replace(label="huge"),
    ),
    KnownRule(Rule("broken", SqlFilter("number / 0 = 1")), _divide_by_zero),
)


def changed_by(rule: Rule, message: Message, now: Instant) -> Message:
    """Return the copy that a rule's action makes, encoded as the edge encodes it."""
    assert rule.action is not None
    reader = WireContentReader()
    action = compile_action(rule.action, new_id=uuid4)
    return reader.changed(message, action.apply(reader.view(message, now)))


def note_in(content: bytes) -> tuple[Note, bytes]:
    """Return what a stored content says."""
    bare = content[split_content(content)[1] :]
    sections = {section.code: section for section in find_sections(bare)}
    properties = decode_map(bare, sections[SectionCode.APPLICATION_PROPERTIES])
    colour, number = properties.get("colour"), properties.get("number")
    label = decode_list(bare, sections[SectionCode.PROPERTIES])[LABEL_FIELD]
    body = decode_section(bare, sections[SectionCode.DATA])
    assert isinstance(colour, str | None)
    assert isinstance(label, str | None)
    assert isinstance(number, int | None)
    assert isinstance(body, bytes)
    return Note(colour, label, number), body


def message_of(note: Note, body: bytes) -> Message:
    """Make a message as a client would send it."""
    properties = {"colour": note.colour, "number": note.number}
    fields: list[object] = [None] * (LABEL_FIELD + 1)
    fields[LABEL_FIELD] = note.label
    return read_message(
        encode_properties(fields)
        + encode_section(
            SectionCode.APPLICATION_PROPERTIES,
            {name: value for name, value in properties.items() if value is not None},
        )
        + encode_section(SectionCode.DATA, body)
    )
