"""Correlation filters: every field that is set must equal the message's."""

from collections.abc import Callable, Mapping
from uuid import UUID

import pytest

from bendybus.model.errors import ArgumentInvalid
from bendybus.model.filters import compile_filter
from bendybus.model.rule import (
    CorrelationFilter,
    FalseFilter,
    Filter,
    PropertyValue,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from tests.unit.model.rule_messages import Seen, fixed_id

pytestmark = pytest.mark.spec("R4")

FIELDS = [
    (CorrelationFilter(content_type="value"), "ContentType"),
    (CorrelationFilter(correlation_id="value"), "CorrelationId"),
    (CorrelationFilter(label="value"), "Label"),
    (CorrelationFilter(message_id="value"), "MessageId"),
    (CorrelationFilter(reply_to="value"), "ReplyTo"),
    (CorrelationFilter(reply_to_session_id="value"), "ReplyToSessionId"),
    (CorrelationFilter(session_id="value"), "SessionId"),
    (CorrelationFilter(to="value"), "To"),
]


class Narrow(int):
    """Stands for a number of a wire type."""

    def __repr__(self) -> str:
        return f"Narrow({int(self)})"


def make_filter(values: Mapping[str, PropertyValue]) -> SqlFilter:
    return SqlFilter("a = 1", values)


def make_action(values: Mapping[str, PropertyValue]) -> SqlAction:
    return SqlAction("SET a = 1", values)


def make_correlation(values: Mapping[str, PropertyValue]) -> CorrelationFilter:
    return CorrelationFilter(properties=values)


Make = Callable[[Mapping[str, PropertyValue]], SqlFilter | SqlAction | CorrelationFilter]
MAKERS: list[Make] = [make_filter, make_action, make_correlation]


def passes(described: Filter, view: Seen) -> bool:
    return compile_filter(described, new_id=fixed_id).matches(view)


@pytest.mark.parametrize(("described", "name"), FIELDS, ids=[name for _, name in FIELDS])
def test_each_field_is_compared_with_its_system_property(
    described: CorrelationFilter, name: str
) -> None:
    assert passes(described, Seen(system={name: "value"}))
    assert not passes(described, Seen(system={name: "Value"}))
    assert not passes(described, Seen(system={name: None}))
    others = {other: "value" for _, other in FIELDS if other != name}
    assert not passes(described, Seen({name: "value"}, others))


EQUALITIES: list[tuple[PropertyValue, object, bool]] = [
    ("a", "a", True),
    ("a", "A", False),
    ("1", 1, False),
    (1, "1", False),
    (1, 1, True),
    (1, 1.0, True),
    (1.5, 1.5, True),
    (1, Narrow(1), True),
    (Narrow(1), 1.0, True),
    (2**53 + 1, float(2**53), False),
    (True, True, True),
    (True, 1, False),
    (1, True, False),
    (False, 0, False),
    (b"a", b"a", True),
    (b"a", "a", False),
    (UUID(int=1), UUID(int=1), True),
    (UUID(int=1), str(UUID(int=1)), False),
    (1, None, False),
    (1, [1], False),
    ("", "", True),
    (1, float("nan"), False),
]


@pytest.mark.parametrize(("wanted", "given", "is_match"), EQUALITIES, ids=repr)
def test_user_properties_are_equal_by_value_within_their_kind(
    wanted: PropertyValue, given: object, is_match: bool
) -> None:
    assert passes(CorrelationFilter(properties={"Key": wanted}), Seen({"key": given})) is is_match


def test_a_missing_user_property_equals_nothing() -> None:
    assert not passes(CorrelationFilter(properties={"key": 1}), Seen({"other": 1}))


def test_all_that_is_set_must_be_equal() -> None:
    described = CorrelationFilter(label="order", properties={"color": "red", "size": 1})
    view = {"Color": "red", "SIZE": 1, "more": 2}
    assert passes(described, Seen(view, {"Label": "order"}))
    assert not passes(described, Seen(view, {"Label": "other"}))
    assert not passes(described, Seen(view | {"SIZE": 2}, {"Label": "order"}))


def test_the_true_filter_passes_and_the_false_filter_does_not() -> None:
    assert passes(TrueFilter(), Seen())
    assert not passes(FalseFilter(), Seen())


@pytest.mark.parametrize("value", [None, [1], float("nan"), {"a": 1}])
@pytest.mark.parametrize("make", MAKERS)
def test_a_value_that_equals_nothing_is_refused(make: Make, value: PropertyValue) -> None:
    with pytest.raises(ArgumentInvalid, match="'key' has a value that equals nothing"):
        make({"key": value})


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (make_correlation, ("Color", "color")),
        (make_filter, ("name", "NAME")),
        (make_filter, ("@name", "name")),
        (make_action, ("@name", "@Name")),
    ],
)
def test_two_spellings_of_one_name_are_refused(make: Make, names: tuple[str, str]) -> None:
    with pytest.raises(ArgumentInvalid, match=f"'{names[0]}' and '{names[1]}' are the same name"):
        make(dict.fromkeys(names, 1))


def test_an_at_sign_is_part_of_the_name_of_a_property_but_not_of_a_parameter() -> None:
    described = CorrelationFilter(properties={"@a": 1, "a": 2})
    assert passes(described, Seen({"@a": 1, "a": 2}))


def test_descriptions_can_be_hashed_and_compared() -> None:
    assert len({SqlFilter("a = @b", {"b": 1}), SqlFilter("a = @b", {"b": 1})}) == 1
    assert len({CorrelationFilter(properties={"a": 1}), CorrelationFilter(label="x")}) == 2
    assert len({SqlAction("SET a = @b", {"b": 1}), SqlAction("SET a = @b", {"b": 2})}) == 2
