"""How far a command has come, shown while it runs: on a terminal, and not in the way of output."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import Output
from bendybus.client.going_through import OnProgress, Progress


class _Rate(ProgressColumn):
    """How many messages a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


def _bars(*columns: ProgressColumn, is_shown: bool = True) -> Bars:
    """Make bars for who watches a terminal; they are gone when it is done."""
    return Bars(
        SpinnerColumn(),
        *columns,
        console=Console(stderr=True),
        disable=not (is_shown and sys.stderr.isatty()),
        transient=True,
    )


@contextmanager
def shown_progress(verb: str) -> Iterator[OnProgress]:
    """Show how many of the messages were looked at, and how many of them were meant."""
    with _bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    ) as bars:
        bar = bars.add_task(verb, total=None)

        def show(progress: Progress) -> None:
            bars.update(
                bar,
                total=max(progress.total, progress.looked_at),
                completed=progress.looked_at,
                description=f"{verb} {progress.done:,}",
            )

        yield show


@contextmanager
def shown_count(verb: str, *, is_shown: bool) -> Iterator[Callable[[int], None]]:
    """Show how many messages were looked at, where nobody knows how many there are."""
    text = TextColumn("{task.description} {task.completed:,}")
    with _bars(text, _Rate(), is_shown=is_shown) as bars:
        bar = bars.add_task(verb, total=None)
        yield lambda count: bars.update(bar, completed=count)


@contextmanager
def shown_bytes(verb: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many bytes are done, of how many."""
    with _bars(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    ) as bars:
        bar = bars.add_task(verb, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


@contextmanager
def shown_rows(verb: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show what is being done, and how many rows of how many, about."""
    with _bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
    ) as bars:
        bar = bars.add_task(verb, total=None)
        yield lambda stage, done, total: bars.update(
            bar, description=f"{verb}: {stage}", completed=done, total=max(total, done)
        )


def report(done: Progress, verb: str, output: Output) -> None:
    """Print how it went. Raises `CommandFailed` if a part of the queue could not be reached."""
    if output is Output.JSON:
        typer.echo(json.dumps(asdict(done)))
    else:
        typer.echo(f"{'' if done.is_exact else 'at least '}{done.done} {verb}")
        if done.locked:
            typer.echo(f"{done.locked} left alone: somebody holds them", err=True)
        if done.refused:
            typer.echo(f"{done.refused} cannot go there; the first, {done.refusal}", err=True)
    if done.unavailable:
        fragments = ", ".join(map(str, done.unavailable))
        raise CommandFailed(
            f"fragments {fragments} cannot be reached: their store is away. See `bendybus store"
            " list`, and run this again when it is back"
        )
