"""Folding the texts of failures, so that those that differ in a number or a name become one.

Texts of failures have ids, times, sizes and names in them, and hardly two are alike. Here what
differs is replaced by what it is: `Timeout after 3012 ms for order 'A-17'` becomes `Timeout after
<n> ms for order <text>`. The patterns mean the same in Python and in Java.
"""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as every program on Spark calls it

LENGTH_MAX: Final = 300

# In this order: what is longer or more certain comes first.
FOLDS: Final[tuple[tuple[str, str], ...]] = (
    # The first line that says something; what follows is mostly a stack.
    (r"(?s)^\s+", ""),
    (r"(?s)\s*[\r\n].*$", ""),
    (r"https?://[^\s'\"<>]+", "<url>"),
    (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", "<address>"),
    (r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b", "<id>"),
    (
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?",
        "<time>",
    ),
    # Quotes that begin a word and end one; an apostrophe within a word is none.
    (r"(?<!\w)'[^']*'(?!\w)", "<text>"),
    (r'(?<!\w)"[^"]*"(?!\w)', "<text>"),
    (r"`[^`]*`", "<text>"),
    # Ids: long and hexadecimal with a digit, or a word with at least three digits in a row.
    (r"\b0x[0-9A-Fa-f]+\b", "<id>"),
    (r"\b(?=[A-Fa-f]*\d)[0-9A-Fa-f]{12,}\b", "<id>"),
    (r"\b(?=\w*[A-Za-z_])\w*\d{3}\w*\b", "<id>"),
    # Numbers, versions, addresses with ports: digits that begin a word.
    (r"(?<![\w<])\d+(?:[.,:]\d+)*", "<n>"),
    (r"\s+", " "),
)


def folded(text: Column) -> Column:
    """Return the text of a failure without what differs from message to message."""
    found = F.coalesce(text, F.lit(""))
    for pattern, replacement in FOLDS:
        found = F.regexp_replace(found, pattern, replacement)
    return F.substring(F.trim(found), 1, LENGTH_MAX)
