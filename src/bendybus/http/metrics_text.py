"""Metrics as Prometheus reads them: its text format, or OpenMetrics if it asks for that.

Written by hand: with ten thousand entities it is tens of thousands of lines, and a line is one
formatted string here. The usual library takes fifteen times as long (decisions/0015).
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from bendybus.http.metric_families import FAMILIES, OF_ONE_WORKER, WORKER_UP, Family
from bendybus.store.figures import Distribution

TEXT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def escaped(text: str) -> str:
    """Return the value of a label as it stands between quotes."""
    return text.translate(_ESCAPES)


class MetricsText:
    """Gathers values by metric, because those of one must stand together."""

    def __init__(self) -> None:
        self._lines: dict[Family, list[str]] = {family: [] for family in FAMILIES}

    def add(self, family: Family, labels: str, value: float) -> None:
        """Add a value. Labels are written as in the text: `a="b",c="d"`, escaped; or not at all."""
        name = family.sample_name
        self._lines[family].append(f"{name}{{{labels}}} {value}" if labels else f"{name} {value}")

    def add_histogram(self, family: Family, labels: str, values: Distribution) -> None:
        """Add a histogram."""
        name, lines = family.name, self._lines[family]
        totals = list(accumulate(values.counts))
        ends = [*(str(float(end)) for end in values.ends), "+Inf"]
        lines += [
            f'{name}_bucket{{{labels},le="{end}"}} {total}'
            for end, total in zip(ends, totals, strict=True)
        ]
        lines += [f"{name}_sum{{{labels}}} {values.sum}", f"{name}_count{{{labels}}} {totals[-1]}"]

    def of_one_worker(self) -> dict[str, list[str]]:
        """Return the lines that are this worker's own, by metric."""
        return {
            family.name: lines for family, lines in self._lines.items() if family in OF_ONE_WORKER
        }

    def join(self, workers: Mapping[int, Mapping[str, Sequence[str]] | None]) -> "MetricsText":
        """Return the text with what each worker counts for itself, told apart by its number.

        Not as a sum: one that starts again counts from zero, and a sum would seem to, too.
        """
        joined = MetricsText()
        joined._lines |= {
            family: lines for family, lines in self._lines.items() if family not in OF_ONE_WORKER
        }
        for worker, lines_by_name in sorted(workers.items()):
            label = f'worker="{worker}"'
            joined.add(WORKER_UP, label, int(lines_by_name is not None))
            for family in OF_ONE_WORKER:
                lines = () if lines_by_name is None else lines_by_name.get(family.name, ())
                joined._lines[family] += [_labelled(line, label) for line in lines]
        return joined

    def text(self, *, is_open_metrics: bool) -> str:
        """Return all of it, in one of the two forms."""
        parts: list[str] = []
        for family, lines in self._lines.items():
            if lines:
                name = family.name if is_open_metrics else family.sample_name
                parts.append(f"# HELP {name} {family.text}.\n# TYPE {name} {family.kind}")
                parts += lines
        parts.append("# EOF\n" if is_open_metrics else "")
        return "\n".join(parts)


def _labelled(line: str, label: str) -> str:
    """Put a label in front of those that a line has."""
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{label},{rest}"
    name, _, value = line.partition(" ")
    return f"{name}{{{label}}} {value}"
