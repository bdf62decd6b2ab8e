"""Tables as text, and the pages of the documentation that commands write figures into."""

from collections.abc import Sequence
from pathlib import Path

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


def write_between_marks(page: Path, parts: Sequence[str], name: str) -> None:
    """Replace what is between the marks of that name; everything around them stays."""
    begin, end = marks(name)
    before, _, rest = page.read_text().partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"{page} has lost its marks"
    page.write_text(before + "\n\n".join([begin, *parts, end]) + after)


def marks(name: str) -> tuple[str, str]:
    """Where the figures of that name begin and end; comments, which a reader does not see."""
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
