"""How far a pipeline has come: a line that changes on a terminal, or lines of JSON for programs."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import typer
from rich.console import Console

from bendybus.cli.options import Output
from bendybus.pipelines.reading import Reading


@contextmanager
def shown_readings(name: str, output: Output) -> Iterator[Callable[[Reading], None]]:
    """Show what a pipeline says of itself while the block runs."""
    if output is Output.JSON:
        yield lambda reading: typer.echo(json.dumps({"progress": asdict(reading)}))
        return
    console = Console(stderr=True)
    # Without a terminal it shows nothing.
    with console.status(name) as status:
        yield lambda reading: status.update(f"{name}: {as_line(reading)}")


def as_line(reading: Reading) -> str:
    """Return a reading for people."""
    parts = [reading.stage]
    if reading.rows:
        parts += [f"{reading.rows:,} rows", f"{reading.rows_per_second:,.0f}/s"]
    elif reading.tasks:
        parts.append(f"{reading.tasks_done} of {reading.tasks} tasks")
    if reading.lag is not None:
        parts.append(f"{reading.lag:,} waiting")
    return " · ".join(parts)
