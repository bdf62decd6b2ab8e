"""Rules to XML and back, with the types of their values."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.atom.entries import Envelope, read_entry, write_entry, write_request_entry
from bendybus.atom.properties import Kind, write_properties
from bendybus.atom.rules import read_rule, write_default_rule, write_rule
from bendybus.atom.values import read_any, write_any
from bendybus.atom.xml_reading import parse
from bendybus.atom.xml_writing import SCHEMA_INSTANCE
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.message_view import fold_name
from bendybus.model.rule import (
    CorrelationFilter,
    FalseFilter,
    PropertyValue,
    Rule,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from bendybus.model.time_values import Moment, Span
from tests.unit.atom.test_xml_reading import XML_TEXT

MOMENTS = st.sampled_from(
    ["2020-07-05T11:12:13", "2020-07-05T11:12:13Z", "1969-12-31T23:59:59.9999999+01:30"]
).map(Moment.from_text)
SPANS = st.sampled_from(["PT0S", "P1DT2H3M", "PT0.0015S"]).map(Span.from_text)
VALUES: st.SearchStrategy[PropertyValue] = st.one_of(
    XML_TEXT,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.uuids(),
    st.binary(max_size=40),
    MOMENTS,
    SPANS,
)
PAIRS = st.dictionaries(XML_TEXT.filter(bool), VALUES, max_size=4).filter(
    lambda pairs: len({fold_name(name.removeprefix("@")) for name in pairs}) == len(pairs)
)
TEXTS = st.none() | XML_TEXT
CORRELATION = st.builds(
    CorrelationFilter,
    content_type=TEXTS,
    correlation_id=XML_TEXT,
    label=TEXTS,
    message_id=TEXTS,
    reply_to=TEXTS,
    reply_to_session_id=TEXTS,
    session_id=TEXTS,
    to=TEXTS,
    properties=PAIRS,
)
SQL = XML_TEXT.filter(lambda text: text.strip())
FILTERS = st.one_of(
    st.builds(TrueFilter),
    st.builds(FalseFilter),
    st.builds(SqlFilter, SQL, PAIRS),
    CORRELATION,
)
RULES = st.builds(Rule, st.just("r"), FILTERS, st.none() | st.builds(SqlAction, SQL, PAIRS))
ENVELOPE = Envelope(address="https://h/", title="r", author="ns", published=None, updated=None)


@given(RULES)
def test_a_rule_is_read_as_it_was_written(rule: Rule) -> None:
    entry = read_entry(write_entry(ENVELOPE, Kind.RULE, write_rule(rule)).encode())
    assert read_rule(entry.description, "r") == rule


@given(VALUES)
def test_a_value_keeps_its_type(value: PropertyValue) -> None:
    document = f'<d xmlns:i="{SCHEMA_INSTANCE}">{write_any("Value", value)}</d>'
    element = parse(document.encode()).find("Value")
    assert element is not None
    # The JavaScript client cuts the first five characters off.
    assert element.attributes["type"][5:] == element.type_name
    back = read_any(element)
    assert (type(back), back) == (type(value), value)
    if isinstance(value, Moment | Span):
        assert isinstance(back, Moment | Span)
        assert back.text == value.text


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("x:int", " 5 ", 5),
        ("l28:double", "5", 5.0),
        ("x:double", "INF", float("inf")),
        ("x:boolean", "1", True),
        ("x:string", "", ""),
        ("x:guid", "00000000-0000-0000-0000-000000000001", UUID(int=1)),
    ],
)
def test_values_are_read_as_clients_write_them(kind: str, text: str, value: PropertyValue) -> None:
    document = f'<v xmlns:i="urn:i" i:type="{kind}">{text}</v>'
    back = read_any(parse(document.encode()))
    assert (type(back), back) == (type(value), value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "1.5"),
        ("int", "9223372036854775808"),
        ("double", "1_0"),
        ("double", ""),
        ("boolean", "yes"),
        ("dateTime", "2020-02-30T00:00:00"),
        ("dateTime", "yesterday"),
        ("dateTime", "2020-02-03T00:00:00+99:00"),
        ("duration", "-P1D"),
        ("guid", "1"),
        ("base64Binary", "?"),
        ("colour", "red"),
    ],
)
def test_what_is_no_value_of_its_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ArgumentInvalid):
        read_any(parse(f'<v xmlns:i="urn:i" i:type="x:{kind}">{text}</v>'.encode()))


@given(RULES)
def test_a_subscription_is_asked_for_with_its_first_rule(rule: Rule) -> None:
    content = write_properties(Kind.SUBSCRIPTION, {}, write_default_rule(rule))
    entry = read_entry(write_request_entry(Kind.SUBSCRIPTION, content).encode())
    first = entry.description.find("DefaultRuleDescription")
    assert first is not None
    assert read_rule(first, first.text_of("Name") or "") == rule


def test_without_a_filter_a_rule_lets_everything_in() -> None:
    assert read_rule(parse(b"<RuleDescription />"), "r") == Rule("r", TrueFilter(), None)
