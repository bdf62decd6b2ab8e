"""Filters mean what SQLite says, wherever the two languages mean the same.

Each strategy draws a piece of a condition twice: in our language and in SQLite's. They differ
in how texts are joined. Left out is what SQLite answers otherwise on purpose: values of mixed
kinds, integers divided by zero, and unknown choices of IN.
"""

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model.rule_messages import Seen, truth_of

pytestmark = pytest.mark.spec("R4")

SQLITE = sqlite3.connect(":memory:")
SQLITE.execute("PRAGMA case_sensitive_like = ON")

INTEGERS = ["i", "j"]
DOUBLES = ["x", "y"]
TEXTS = ["s", "t"]
# Few letters, so that patterns often match.
LETTERS = st.text(alphabet="aAb%_'é\n", max_size=6)
SMALL = st.integers(-20, 20)
QUARTERS = st.integers(-40, 40).map(lambda quarters: quarters / 4)


class Both(NamedTuple):
    """One piece in the two languages."""

    ours: str
    theirs: str


def same(text: str) -> Both:
    return Both(text, text)


def join(template: str, *parts: Both) -> Both:
    ours = template.format(*(part.ours for part in parts))
    return Both(ours, template.format(*(part.theirs for part in parts)))


def quoted(text: str) -> Both:
    return same("'" + text.replace("'", "''") + "'")


def columns(names: list[str]) -> st.SearchStrategy[Both]:
    return st.sampled_from([Both(name, f":{name}") for name in names])


def combined(leaves: st.SearchStrategy[Both], operators: list[str]) -> st.SearchStrategy[Both]:
    """Numbers: chains with and without brackets, signs, division by what is not zero."""
    divisors = st.sampled_from(["-3", "2", "7"])

    def extend(inner: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
        return st.one_of(
            st.builds(
                lambda left, op, right: join(f"{{}} {op} {{}}", left, right),
                inner,
                st.sampled_from(operators),
                inner,
            ),
            inner.map(lambda each: join("({})", each)),
            inner.map(lambda each: join("- ({})", each)),
            st.builds(lambda each, by: join(f"({{}}) / {by}", each), inner, divisors),
        )

    return st.recursive(leaves, extend, max_leaves=4)


integers = combined(columns(INTEGERS) | SMALL.map(lambda n: same(str(n))), ["+", "-", "*"])
remainders = st.builds(
    lambda each, by: join(f"({{}}) % {by}", each), integers, st.sampled_from(["-3", "2", "7"])
)
doubles = combined(columns(DOUBLES + INTEGERS) | QUARTERS.map(lambda n: same(str(n))), ["+", "-"])
numbers = integers | remainders | doubles
texts = st.recursive(
    columns(TEXTS) | LETTERS.map(quoted) | st.just(same("NULL")),
    lambda inner: st.builds(
        lambda left, right: Both(
            f"{left.ours} + {right.ours}", f"({left.theirs} || {right.theirs})"
        ),
        inner,
        inner,
    ),
    max_leaves=3,
)


def like(operand: Both, negation: str, pattern: str, escape: str | None) -> Both:
    """A pattern in which the escape character, if any, is never the last; it is never a b."""
    if escape is not None and pattern.endswith(escape):
        pattern += "b"
    condition = join(f"{{}} {negation}LIKE {{}}", operand, quoted(pattern))
    return condition if escape is None else join("{} ESCAPE {}", condition, quoted(escape))


negations = st.sampled_from(["", "NOT "])
comparators = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
predicates = st.one_of(
    st.builds(lambda a, op, b: join(f"{{}} {op} {{}}", a, b), numbers, comparators, numbers),
    st.builds(lambda a, op, b: join(f"{{}} {op} {{}}", a, b), texts, comparators, texts),
    st.builds(
        lambda each, word: join(f"{{}} IS {word}NULL", each),
        columns(INTEGERS + DOUBLES + TEXTS),
        negations,
    ),
    st.builds(
        lambda each, word, choices: join(f"{{}} {word}IN ({', '.join(choices)})", each),
        numbers,
        negations,
        st.lists(SMALL.map(str) | QUARTERS.map(str), min_size=1, max_size=4),
    ),
    st.builds(
        lambda each, word, choices: join(f"{{}} {word}IN ({{}})", each, same(", ".join(choices))),
        texts,
        negations,
        st.lists(LETTERS.map(lambda text: quoted(text).ours), min_size=1, max_size=4),
    ),
    st.builds(like, texts, negations, LETTERS, st.none() | st.sampled_from(["a", "%", "_", "!"])),
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds(
            lambda a, word, b: join(f"{{}} {word} {{}}", a, b),
            inner,
            st.sampled_from(["AND", "OR"]),
            inner,
        ),
        inner.map(lambda each: join("({})", each)),
        inner.map(lambda each: join("NOT ({})", each)),
    ),
    max_leaves=6,
)
messages = st.fixed_dictionaries(
    {
        **dict.fromkeys(INTEGERS, st.none() | SMALL),
        **dict.fromkeys(DOUBLES, st.none() | QUARTERS),
        **dict.fromkeys(TEXTS, st.none() | LETTERS),
    }
)


@given(conditions.filter(lambda each: len(each.ours) < 1000), messages, st.booleans())
def test_a_condition_is_as_true_as_sqlite_says(
    condition: Both, message: Mapping[str, object], keeps_nulls: bool
) -> None:
    [answer] = SQLITE.execute(f"SELECT {condition.theirs}", message).fetchone()
    # To us a property that is null and one that is missing are alike, to SQLite the latter is.
    present = {name: v for name, v in message.items() if keeps_nulls or v is not None}
    expected = None if answer is None else bool(answer)
    assert truth_of(condition.ours, Seen(present)) is expected
