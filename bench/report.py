"""What a run leaves behind: tables for the terminal and the documentation, JSON for the history."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from bench.machine import Machine
from bench.page import Table, as_markdown, as_text, write_between_marks
from bench.promises import Verdict
from bench.readings import Figure, Readings, Subject, unit_of

NOTHING: Final = "-"
WHOLE_NUMBERS_FROM: Final = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run."""

    at: datetime
    part: str
    size: str
    versions: dict[str, str]
    machine: Machine
    readings: Readings
    verdicts: Sequence[Verdict]


def figures_table(readings: Readings) -> Table:
    """A row per figure and body size, a column per queue; medians."""
    subjects = readings.subjects()
    targets = list(dict.fromkeys(subject.target for subject in subjects))
    rows = list(dict.fromkeys((subject.figure, subject.body_bytes) for subject in subjects))
    table = [["median of the rounds", "unit", *targets]]
    for figure, body_bytes in rows:
        values = [readings.median(figure, target, body_bytes) for target in targets]
        table.append(
            [label(figure, body_bytes), unit_of(figure), *(number(value) for value in values)]
        )
    return table


def cpu_table(readings: Readings) -> Table:
    """The same shape for the cores in use: broker + clients."""
    subjects = [s for s in readings.subjects() if readings.median_cpu(s) is not None]
    targets = list(dict.fromkeys(subject.target for subject in subjects))
    rows = list(dict.fromkeys((subject.figure, subject.body_bytes) for subject in subjects))
    table = [["cores: broker + clients", *targets]]
    for figure, body_bytes in rows:
        cells = [cores(readings, Subject(figure, target, body_bytes)) for target in targets]
        table.append([label(figure, body_bytes), *cells])
    return table


def readings_tables(readings: Readings) -> list[Table]:
    """The figures, and the cores where any were read."""
    tables = [figures_table(readings), cpu_table(readings)]
    return [table for table in tables if len(table) > 1]


def promises_table(verdicts: Sequence[Verdict]) -> Table:
    """A row per promise, with its threshold and what came of it."""
    table = [["promise", "threshold", "measured", "kept"]]
    for verdict in verdicts:
        value = NOTHING if verdict.value is None else f"{verdict.value:.2f}"
        kept = "pass" if verdict.is_kept() else "FAIL"
        table.append([verdict.promise.name, verdict.promise.limit(), value, kept])
    return table


def label(figure: Figure, body_bytes: int) -> str:
    """The figure's name with the size of the bodies, where there are any."""
    return f"{figure}, {body_bytes} B" if body_bytes else str(figure)


def number(value: float | None) -> str:
    """Four figures are more than a benchmark of this kind can tell apart."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= WHOLE_NUMBERS_FROM or value == int(value) else f"{value:.2f}"


def cores(readings: Readings, subject: Subject) -> str:
    """Cores in use for one subject."""
    shares = readings.median_cpu(subject)
    return NOTHING if shares is None else f"{shares.broker_cores:.2f} + {shares.client_cores:.2f}"


def print_outcome(outcome: Outcome) -> None:
    """Everything a reader at the terminal wants."""
    print(f"\n{conditions(outcome)}\n")
    for table in (*readings_tables(outcome.readings), promises_table(outcome.verdicts)):
        print(f"{as_text(table)}\n")


def conditions(outcome: Outcome) -> str:
    """The machine and the versions in one paragraph."""
    machine = outcome.machine
    versions = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
    return (
        f"{outcome.at:%Y-%m-%d %H:%M} UTC; {versions}; "
        f"{machine.cores} cores of {machine.processor}, "
        f"{machine.memory_gb} GB, {machine.filesystem} with {machine.sync_ms} ms per synced write, "
        f"Linux {machine.kernel}, load average before the run {machine.load_before}."
    )


def write_page(page: Path, outcome: Outcome) -> None:
    """Put the figures into the page of the documentation."""
    tables = [promises_table(outcome.verdicts), *readings_tables(outcome.readings)]
    parts = [conditions(outcome), *(as_markdown(table) for table in tables)]
    write_between_marks(page, parts, outcome.part)


def append_history(folder: Path, outcome: Outcome) -> Path:
    """Add the run to the file of its day, which holds a list of runs, and return that file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.at:%Y-%m-%d}.json"
    runs = json.loads(path.read_text()) if path.exists() else []
    runs.append(as_json(outcome))
    path.write_text(json.dumps(runs, indent=1) + "\n")
    return path


def as_json(outcome: Outcome) -> dict[str, object]:
    """The run with every round's value, so that spread can be seen later."""
    return {
        "at": outcome.at.isoformat(timespec="seconds"),
        "part": outcome.part,
        "size": outcome.size,
        "versions": outcome.versions,
        "machine": asdict(outcome.machine),
        "readings": [reading_json(outcome.readings, s) for s in outcome.readings.subjects()],
        "promises": [
            {
                "name": verdict.promise.name,
                "threshold": verdict.promise.limit(),
                "measured": verdict.value,
                "kept": verdict.is_kept(),
            }
            for verdict in outcome.verdicts
        ],
    }


def reading_json(readings: Readings, subject: Subject) -> dict[str, object]:
    """One subject with all its rounds."""
    shares = readings.median_cpu(subject)
    return {
        "figure": subject.figure,
        "target": subject.target,
        "body_bytes": subject.body_bytes,
        "unit": unit_of(subject.figure),
        "rounds": [round(reading.value, 3) for reading in readings.of(subject)],
        "cores": None if shares is None else asdict(shares),
    }
