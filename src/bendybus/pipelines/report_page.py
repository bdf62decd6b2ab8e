"""A report as one HTML file: no scripts, nothing loaded, light or dark as its reader has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5c6675; --page: #ffffff; --card: #f3f5f8;
  --line: #d9dee6; --c0: #2a78d6; --c1: #1baf7a; --c2: #eda100; --c3: #e34948; --c4: #4a3aa7;
  --c5: #e87ba4; --c6: #008300; --c7: #8a94a3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --page: #14181f;
  --card: #1e242d; --line: #323a46; --c0: #4a94ea; --c1: #22a97a; --c2: #d39a1c; --c3: #e66767;
  --c4: #9085e9; --c5: #d55181; --c6: #3f9d3f; --c7: #6d7785; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p.under, p.note { color: var(--soft); margin: .2rem 0 1rem; }
dl.cards { display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
dl.cards div { background: var(--card); border-radius: 6px; padding: .5rem .8rem; }
dl.cards dt { color: var(--soft); font-size: .8rem; }
dl.cards dd { margin: 0; font-size: 1.15rem; font-variant-numeric: tabular-nums; }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .85rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg.plot { width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 11px; }
svg text.name { fill: var(--ink); font-size: 12px; } svg .grid { stroke: var(--line); }
ul.legend { list-style: none; padding: 0; margin: 0 0 .3rem; font-size: .8rem; color: var(--soft); }
.s0 { fill: var(--c0); } .s1 { fill: var(--c1); } .s2 { fill: var(--c2); } .s3 { fill: var(--c3); }
.s4 { fill: var(--c4); } .s5 { fill: var(--c5); } .s6 { fill: var(--c6); } .s7 { fill: var(--c7); }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and below it pieces of HTML that were made here or by `plots`."""

    heading: str
    parts: Sequence[str]


def page(title: str, under: str, sections: Sequence[Section]) -> str:
    """Put a report together. Sections of which nothing is to be said are left out."""
    body = "".join(
        f"<section><h2>{escape(each.heading)}</h2>{''.join(each.parts)}</section>\n"
        for each in sections
        if any(each.parts)
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>"
        f'<p class="under">{escape(under)}</p>\n{body}</body></html>\n'
    )


def write_page(path: Path, text: str) -> None:
    """Write a report in one step: whoever reads meanwhile sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def cards(values: Sequence[tuple[str, str]]) -> str:
    """Show the few values that matter most."""
    items = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values
    )
    return f'<dl class="cards">{items}</dl>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str | int | float | None]]) -> str:
    """Show rows; numbers stand on the right. Empty without rows."""
    if not rows:
        return ""
    kinds = [
        ' class="number"' if all(isinstance(row[at], int | float | None) for row in rows) else ""
        for at in range(len(heads))
    ]
    head = "".join(
        f"<th{kind}>{escape(each)}</th>" for each, kind in zip(heads, kinds, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{_shown(each)}</td>" for each, kind in zip(row, kinds, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def note(text: str) -> str:
    """Say something in small letters; empty if there is nothing to say."""
    return f'<p class="note">{escape(text)}</p>' if text else ""


def _shown(value: str | float | None) -> str:
    match value:
        case None:
            return ""
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case _:
            return escape(value)
