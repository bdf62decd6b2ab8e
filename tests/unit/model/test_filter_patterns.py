"""The patterns of LIKE against a matcher that tries everything."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.like_pattern import compile_pattern

pytestmark = pytest.mark.spec("R4")

LETTERS = st.text(alphabet="ab.\n", max_size=12)
PATTERNS = st.text(alphabet="ab.\n%_", max_size=8)


@cache
def is_like(text: str, pattern: str) -> bool:
    """Say by definition whether the text has the pattern's shape."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return is_like(text, pattern[1:]) or (bool(text) and is_like(text[1:], pattern))
    return bool(text) and pattern[0] in ("_", text[0]) and is_like(text[1:], pattern[1:])


@given(LETTERS, PATTERNS)
def test_a_pattern_matches_what_its_definition_says(text: str, pattern: str) -> None:
    assert (compile_pattern(pattern, None).fullmatch(text) is not None) is is_like(text, pattern)


@given(st.text(), st.sampled_from("!%_\\a"))
def test_a_text_with_every_character_escaped_matches_itself_alone(text: str, escape: str) -> None:
    pattern = compile_pattern("".join(escape + character for character in text[:500]), escape)
    assert pattern.fullmatch(text[:500])
    assert not pattern.fullmatch(text[:500] + "x")


def test_a_pattern_that_would_go_back_without_end_ends() -> None:
    """Each gap tried anew for each other would take longer than the universe is old."""
    pattern = compile_pattern("%a" * 200 + "%b", None)
    assert pattern.fullmatch("a" * 30_000) is None
