"""Plots for reports: stacked columns and lists of bars, as SVG that needs nothing else.

Colours come from the page by class (`s0` to `s7`), so that one drawing suits light and dark. Every
mark says its value when the pointer rests on it. A plotting library would be a hundred times the
size of what two kinds of plot need.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

COLOURS: Final = 8
"""How many series are told apart; what is more belongs into one called "others"."""

_WIDTH: Final = 860
_HEIGHT: Final = 260
_LEFT: Final = 62
_TOP: Final = 12
_BOTTOM: Final = 30
_TICKS: Final = 4
_LABELS_MAX: Final = 8
_ROW: Final = 24
_NAME_WIDTH: Final = 300
_NAME_LENGTH_MAX: Final = 44
_BAR_WIDTH: Final = 420
_STEPS: Final = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Series:
    """One colour of a plot: a value for every column."""

    name: str
    values: Sequence[float]


def columns(labels: Sequence[str], stacks: Sequence[Series], *, title: str) -> str:
    """Draw columns side by side, in each the series on top of each other. Empty without values."""
    assert len(stacks) <= COLOURS, "join the smallest series before plotting"
    sums = [sum(values) for values in zip(*(each.values for each in stacks), strict=True)]
    if not sums:
        return ""
    assert len(sums) == len(labels), "every column has a label"
    ticks = ticks_up_to(max(sums))
    top = ticks[-1]
    plot_height = _HEIGHT - _TOP - _BOTTOM
    step = (_WIDTH - _LEFT) / len(labels)
    gap = min(2.0, step / 4)
    marks: list[str] = [_axis(ticks, plot_height)]
    for at, label in enumerate(labels):
        y = float(_TOP + plot_height)
        for colour, series in enumerate(stacks):
            value = series.values[at]
            if value <= 0:
                continue
            height = value / top * plot_height
            y -= height
            tip = f"{label} · {series.name}: {plain(value)}"
            marks.append(
                f'<rect class="s{colour}" x="{_LEFT + at * step:.1f}" y="{y:.1f}"'
                f' width="{step - gap:.1f}" height="{height:.1f}"><title>{escape(tip)}</title>'
                "</rect>"
            )
    marks.append(_labels(labels, step))
    legend = _legend([each.name for each in stacks]) if len(stacks) > 1 else ""
    return legend + _svg(title, _WIDTH, _HEIGHT, marks)


def bars(rows: Sequence[tuple[str, float, str]], *, title: str) -> str:
    """Draw a bar for each name and value, with a note behind it. Empty without rows."""
    if not rows:
        return ""
    top = max(value for _, value, _ in rows) or 1
    marks: list[str] = []
    for at, (name, value, note) in enumerate(rows):
        middle = at * _ROW + _ROW / 2 + 4
        width = value / top * _BAR_WIDTH
        marks.append(
            f'<text class="name" x="{_NAME_WIDTH - 8}" y="{middle:.1f}" text-anchor="end">'
            f"{escape(shortened(name, _NAME_LENGTH_MAX))}<title>{escape(name)}</title></text>"
            f'<rect class="s0" x="{_NAME_WIDTH}" y="{at * _ROW + 4}" width="{width:.1f}"'
            f' height="{_ROW - 8}"><title>{escape(f"{name}: {plain(value)}")}</title></rect>'
            f'<text x="{_NAME_WIDTH + width + 6:.1f}" y="{middle:.1f}">{escape(note)}</text>'
        )
    return _svg(title, _WIDTH, len(rows) * _ROW, marks)


def ticks_up_to(most: float) -> list[float]:
    """Return the round numbers that mark an axis from zero to `most` or just above it."""
    rough = (most if most > 0 else _TICKS) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in _STEPS if power * each >= rough * (1 - 1e-9))
    return [step * tick for tick in range(max(math.ceil(most / step - 1e-9), 1) + 1)]


def plain(value: float) -> str:
    """Write a number as people read it: 12,345 or 0.25."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - as read


def shortened(text: str, length_max: int) -> str:
    """Cut a text that has no room, and show that it was cut."""
    return text if len(text) <= length_max else f"{text[: length_max - 1]}…"


def _axis(ticks: Sequence[float], plot_height: int) -> str:
    lines = []
    for tick in ticks:
        y = _TOP + plot_height * (1 - tick / ticks[-1])
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{plain(tick)}</text>'
        )
    return "".join(lines)


def _labels(labels: Sequence[str], step: float) -> str:
    every = math.ceil(len(labels) / _LABELS_MAX)
    return "".join(
        f'<text x="{_LEFT + at * step:.1f}" y="{_HEIGHT - 8}">{escape(labels[at])}</text>'
        for at in range(0, len(labels), every)
    )


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<li><svg width="10" height="10"><rect class="s{colour}" width="10" height="10"/></svg>'
        f" {escape(shortened(name, 90))}</li>"
        for colour, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def _svg(title: str, width: int, height: int, marks: Sequence[str]) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(title)}">{"".join(marks)}</svg>'
    )
