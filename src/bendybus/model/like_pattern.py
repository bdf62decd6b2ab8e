"""Patterns of the LIKE operator: `%` stands for any run of characters, `_` for one.

A pattern becomes a regular expression in which the gap before each piece is closed for good
once the piece is found. For these patterns the leftmost place is always as good as a later one,
and nothing is ever tried twice: matching takes at most length of text x length of pattern
steps, whatever a sender puts into the text.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from bendybus.model.limits import SQL_TEXT_LENGTH_MAX


class PatternInvalid(ValueError):
    """The pattern or its escape character cannot be used; the text says why."""


# Bounds the memory for patterns that come from properties; constant ones are compiled once.
@lru_cache(maxsize=256)
def compile_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """Return an expression whose `fullmatch` decides; raises `PatternInvalid`."""
    if escape is not None and len(escape) != 1:
        raise PatternInvalid("the escape of LIKE must be one character")
    if len(pattern) > SQL_TEXT_LENGTH_MAX:
        raise PatternInvalid(f"a pattern of LIKE has at most {SQL_TEXT_LENGTH_MAX} characters")
    pieces = _split(pattern, escape)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    first, *middle, last = pieces
    gaps = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{gaps}.*{last}", re.DOTALL)


def _split(pattern: str, escape: str | None) -> list[str]:
    """Cut the pattern at each `%`; every piece is an expression of fixed length."""
    pieces = [""]
    for character, is_literal in _characters(pattern, escape):
        if is_literal:
            pieces[-1] += re.escape(character)
        elif character == "%":
            pieces.append("")
        else:
            pieces[-1] += "."
    return pieces


def _characters(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """Yield each character and whether it stands for itself."""
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            escaped = next(rest, None)
            if escaped is None:
                raise PatternInvalid("the pattern of LIKE ends with its escape character")
            yield escaped, True
        else:
            yield character, character not in "%_"
