"""Texts that are no filter or no action are refused with the place and the reason."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.filter_grammar import DEPTH_MAX, STATEMENTS_MAX, parse_action, parse_filter
from bendybus.model.filters import compile_filter
from bendybus.model.rule import SqlFilter
from tests.unit.model.rule_messages import Seen, fixed_id, matches

pytestmark = pytest.mark.spec("R4")

END = "found the end of the text"

REFUSED_FILTERS = [
    ("a", 2, "expected an operator, a comparison, NOT, IS, IN or LIKE, " + END),
    ("a = ", 5, "expected a value, " + END),
    ("a == 1", 4, "expected a value, found ="),
    ("= 1", 1, "expected a condition, found ="),
    ("a = 1 AND", 10, "expected a condition, " + END),
    ("a = 1 b = 2", 7, "expected an operator, AND, OR or the end, found b"),
    ("a = 1 ANDb = 2", 7, "expected an operator, AND, OR or the end, found ANDb"),
    ("1 + 2", 6, "expected a comparison, NOT, IN or LIKE, " + END),
    ("TRUE", 5, "expected a comparison, NOT, IN or LIKE, " + END),
    ("a = b = c", 7, "expected AND, OR or the end, found ="),
    ("(a = 1", 7, "expected ')', " + END),
    ("a = 1)", 6, "expected the end, found )"),
    ("(a = 1) + 1 = 2", 9, "expected AND, OR or the end, found +"),
    ("a AND b = 1", 3, "expected an operator, a comparison, NOT, IS, IN or LIKE, found AND"),
    ("a IS 3", 6, "expected NOT or NULL, found 3"),
    ("1 IS NULL", 3, "expected an operator, a comparison, NOT, IN or LIKE, found IS"),
    ("a NOT 1", 7, "expected IN or LIKE, found 1"),
    ("a IN 1", 6, "expected '(', found 1"),
    ("a IN ()", 7, "expected a value, found )"),
    ("a IN (1,)", 9, "expected a value, found )"),
    ("a IN (1 2)", 9, "expected an operator, ',' or ')', found 2"),
    ("a LIKE", 7, "expected a value, " + END),
    ("a LIKE 'x' ESCAPE", 18, "expected a value, " + END),
    ("EXISTS a", 8, "expected '(', found a"),
    ("EXISTS(1)", 8, "expected a name, found 1"),
    ("EXISTS(p('a'))", 9, "expected ')', found ("),
    ("NOT", 4, "expected a condition, " + END),
    ("sys. = 1", 6, "expected a name, found ="),
    ("sys.Label.x = 1", 10, "found ."),
    ("app.color = 1", 1, "the scope is sys or user, not app"),
    ("a = AND", 5, "AND is a reserved word; as a name it is written [AND]"),
    ("EXISTS(null)", 8, "null is a reserved word"),
    ("like = 1", 1, "like is a reserved word"),
    ("a = 'red", 5, "the text that begins here has no closing '"),
    ("a = 'it''s", 5, "the text that begins here has no closing '"),
    ("[a = 1", 1, "the name that begins here is empty or has no closing ]"),
    ("[a]] = 1", 1, "the name that begins here is empty or has no closing ]"),
    ("[] = 1", 1, "the name that begins here is empty"),
    ('"a = 1', 1, 'the name that begins here is empty or has no closing "'),
    ('"" = 1', 1, "the name that begins here is empty"),
    ("a = #", 5, "the character # has no meaning here"),
    ("@ = 1", 1, "the character @ has no meaning here"),
    ("_a = 1", 1, "the character _ has no meaning here"),
    ("a ! 1", 3, "the character ! has no meaning here"),
    ("a = 1; b = 2", 6, "expected AND, OR or the end, found ;"),
    ("a = 1abc", 6, "found abc"),
    ("a = ٣", 5, "the character ٣ has no meaning here"),
    ("a = 9223372036854775808", 5, "the integer does not fit 64 bits"),
    ("a = -9223372036854775809", 5, "the integer does not fit 64 bits"),
    ("a = -(-9223372036854775808)", 5, "the integer does not fit 64 bits"),
    ("a = 1e999", 5, "the number is too large for a double"),
    ("a = -1e999", 5, "the number is too large for a double"),
    ("lower(a) = 'x'", 1, "the functions are newid(), property(name) and p(name)"),
    ("newid(1) = a", 1, "newid cannot be called so"),
    ("p() = a", 1, "p cannot be called so"),
    ("SET a = 1", 5, "found a"),
]


@pytest.mark.parametrize(
    ("text", "character", "reason"), REFUSED_FILTERS, ids=[case[0] for case in REFUSED_FILTERS]
)
def test_a_wrong_filter_is_refused_with_place_and_reason(
    text: str, character: int, reason: str
) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        compile_filter(SqlFilter(text), new_id=fixed_id)
    assert refused.value.message.startswith(f"syntax error at character {character}: ")
    assert reason in refused.value.message
    assert refused.value.argument == "expression"


REFUSED_ACTIONS = [
    ("a = 1", 1, "expected SET or REMOVE, found a"),
    ("SET", 4, "expected a name, " + END),
    ("SET a", 6, "expected =, " + END),
    ("SET a > 1", 7, "expected =, found >"),
    ("SET a =", 8, "expected a value, " + END),
    ("SET a = b = 1", 11, "expected SET, REMOVE, ',', ';' or the end, found ="),
    ("SET a = (b = 1)", 12, "expected ')', found ="),
    ("SET a = NOT b", 9, "NOT is a reserved word"),
    ("SET p('a') = 1", 6, "expected =, found ("),
    ("SET 'a' = 1", 5, "expected a name, found 'a'"),
    ("SET @a = 1", 5, "expected a name, found @a"),
    ("SET a = 1;; SET b = 2", 11, "expected SET, REMOVE or the end, found ;"),
    ("REMOVE", 7, "expected a name, " + END),
    ("REMOVE 1", 8, "expected a name, found 1"),
    ("REMOVE a = 1", 10, "found ="),
    (";", 1, "expected SET or REMOVE, found ;"),
    ("SET other.a = 1", 5, "the scope is sys or user, not other"),
    ("SET a = 99999999999999999999", 9, "the integer does not fit 64 bits"),
]


@pytest.mark.parametrize(
    ("text", "character", "reason"), REFUSED_ACTIONS, ids=[case[0] for case in REFUSED_ACTIONS]
)
def test_a_wrong_action_is_refused_with_place_and_reason(
    text: str, character: int, reason: str
) -> None:
    with pytest.raises(ArgumentInvalid) as refused:
        parse_action(text)
    assert refused.value.message.startswith(f"syntax error at character {character}: ")
    assert reason in refused.value.message


def test_a_filter_has_at_most_1024_characters() -> None:
    longest = "a = '" + "x" * 1018 + "'"
    assert matches(longest, Seen({"a": "x" * 1018}))
    with pytest.raises(ArgumentOutOfRange, match="at most 1024 characters, not 1025"):
        SqlFilter(longest + " ")


def test_an_action_has_at_most_32_statements() -> None:
    assert len(parse_action("SET a = 1; " * STATEMENTS_MAX)) == STATEMENTS_MAX == 32
    with pytest.raises(ArgumentInvalid, match="at most 32 statements, not 33"):
        parse_action("SET a = 1; " * 33)


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [("NOT ", "a = 1", ""), ("-", "b = 1", ""), ("NOT (a = 1 OR ", "a = 1", ")")],
)
def test_depth_is_bounded_and_said_to_be(opening: str, inner: str, closing: str) -> None:
    for count in (DEPTH_MAX // 4, DEPTH_MAX + 1):
        text = opening * count + inner + closing * count
        if count > DEPTH_MAX:
            with pytest.raises(ArgumentInvalid, match="nested more than 64 levels deep"):
                parse_filter(text)
        else:
            parse_filter(text)


def test_brackets_alone_are_no_depth() -> None:
    assert matches("(" * 500 + "1=1" + ")" * 500, Seen())


@pytest.mark.parametrize(
    "text",
    [
        "OR ".join(["a = 1 "] * 110),
        "a = 1" + "+1" * 500,
        "a IN (" + ",".join(["1"] * 500) + ")",
    ],
    ids=["conditions", "operators", "choices"],
)
def test_long_chains_are_no_depth(text: str) -> None:
    assert not matches(text, Seen({"a": 2}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a LIKE 'x' ESCAPE ''", "must be one character"),
        ("a LIKE 'x' ESCAPE 'ab'", "must be one character"),
        ("a LIKE 'x!' ESCAPE '!'", "ends with its escape character"),
    ],
)
def test_a_constant_pattern_is_checked_when_the_rule_is_made(text: str, reason: str) -> None:
    with pytest.raises(ArgumentInvalid, match=reason):
        compile_filter(SqlFilter(text), new_id=fixed_id)


def test_a_parameter_without_a_value_is_refused_where_it_stands() -> None:
    described = SqlFilter("a = @this AND b = @That", {"this": 1})
    with pytest.raises(ArgumentInvalid, match="@That at character 19 has no value") as refused:
        compile_filter(described, new_id=fixed_id)
    assert refused.value.argument == "parameters"


WORDS = "AND OR NOT IS NULL IN LIKE ESCAPE EXISTS TRUE SET REMOVE newid p a sys user"
SYMBOLS = ". , ; ( ) = <> < + - * / % # ' ["
VALUES = "1 2.5 'x' [b] \"c\" @d 1e999 99999999999999999999"
PIECES = st.sampled_from(f"{WORDS} {SYMBOLS} {VALUES}".split())


@given(st.lists(PIECES, max_size=15), st.sampled_from([parse_filter, parse_action]))
def test_whatever_is_written_is_read_or_refused_as_an_argument(
    pieces: list[str], parse: Callable[[str], object]
) -> None:
    with suppress(ArgumentInvalid):
        parse(" ".join(pieces))


@given(st.text(max_size=40))
def test_any_characters_are_read_or_refused_as_an_argument(text: str) -> None:
    with suppress(ArgumentInvalid):
        parse_filter(text)
