"""Tables as text, and the pages of the documentation that commands write figures into."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- figures: begin -->"
END: Final = "<!-- figures: end -->"

Table = list[list[str]]


def as_text(table: Table) -> str:
    """Aligned columns for a terminal."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for first, *others in table:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]))
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(table: Table) -> str:
    """The same as a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in table]
    rule = "| --- |" + " ---: |" * (len(table[0]) - 1)
    return "\n".join([lines[0], rule, *lines[1:]])


def write_between_marks(page: Path, parts: Sequence[str]) -> None:
    """Replace what is between the marks of the page; the prose around them stays."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"{page} has lost its marks"
    page.write_text(before + "\n\n".join([BEGIN, *parts, END]) + after)
