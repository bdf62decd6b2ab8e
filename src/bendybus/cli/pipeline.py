"""`bendybus pipeline`: bulk work on Spark. Spark is imported when a pipeline runs."""

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.pipeline_command import pipeline_signature, read_options
from bendybus.cli.pipeline_progress import shown_readings
from bendybus.cli.plain_table import PlainTable
from bendybus.model.errors import ArgumentInvalid
from bendybus.pipelines.declarative import SPECIFICATION, make_project, run_project
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.program import Loaded, Program, Result, find_program, shipped_programs
from bendybus.pipelines.reading import Reading

INTERRUPTED: Final = 130
_ANYTHING: Final = {"ignore_unknown_options": True, "allow_extra_args": True}

pipeline_commands = typer.Typer(
    help="Bulk work on Spark: capture, replay, triage and more, on this machine or a cluster.",
    epilog="Example: bendybus pipeline run stats orders --help",
    no_args_is_help=True,
)


@pipeline_commands.command("list")
def list_pipelines(output: OutputOption = Output.TABLE) -> None:
    """Show the pipelines that come with the bus."""
    programs = shipped_programs()
    if output is Output.JSON:
        typer.echo(json.dumps([{"name": each.name, "summary": each.summary} for each in programs]))
        return
    table = PlainTable("pipeline", "what it does")
    for each in programs:
        table.add(each.name, each.summary)
    Console().print(table)


@pipeline_commands.command("show")
def show_pipeline(
    name: Annotated[str, typer.Argument(help="A pipeline, as `list` shows them.")],
    copy: Annotated[
        Path | None, typer.Option("--copy", help="Write it into this new file, to be changed.")
    ] = None,
) -> None:
    """Print the program of a pipeline, or copy it to make one's own.

    bendybus pipeline show capture --copy my_capture.py

    bendybus pipeline run ./my_capture.py --help
    """
    with _ending_in_one_line():
        program = find_program(name)
        if copy is None:
            typer.echo(program.source, nl=False)
            return
        if copy.suffix != ".py":
            raise CommandFailed(f"--copy: {copy} must end in .py to be run")
        with copy.open("x", encoding="utf-8") as file:
            file.write(program.source)
        typer.echo(f"change it, and run it with: bendybus pipeline run {copy}", err=True)


@pipeline_commands.command("init")
def init_project(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
) -> None:
    """Make a project for Spark's declarative pipelines that reads and writes the bus.

    bendybus pipeline init orders-tables

    bendybus pipeline run orders-tables
    """
    with _ending_in_one_line():
        for path in make_project(folder):
            typer.echo(path)


class _Pipelines(TyperGroup):
    """A command for each pipeline, made when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own
        """Return the names of the shipped ones."""
        del ctx
        return [program.name for program in shipped_programs()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - typer's own
        """Return the command of a shipped pipeline, of a file, or of a folder."""
        del ctx
        if (Path(cmd_name) / SPECIFICATION).is_file():
            return _as_command(cmd_name, _project_command(Path(cmd_name)), _ANYTHING)
        try:
            program = find_program(cmd_name)
        except PipelineFailed as error:
            raise typer.BadParameter(str(error)) from None
        try:
            loaded = program.load()
        except PipelineFailed as error:
            return _as_command(cmd_name, _failing_command(program, error), _ANYTHING)
        return _as_command(cmd_name, _program_command(program, loaded), {})


pipeline_commands.add_typer(
    typer.Typer(
        cls=_Pipelines,
        help="Run a pipeline: a shipped one, a file of your own, or a folder that `init` made.",
        epilog="Example: bendybus pipeline run capture orders /data/orders --until-empty",
        no_args_is_help=True,
    ),
    name="run",
)


def _as_command(name: str, function: Any, settings: dict[str, bool]) -> Any:  # noqa: ANN401 - typer's own
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, context_settings=dict(settings))(function)
    return typer.main.get_command(alone)


def _program_command(program: Program, loaded: Loaded) -> Callable[..., None]:
    def command(**said: Any) -> None:  # noqa: ANN401 - options of any kind
        with _ending_in_one_line(is_traceback_shown=said.pop("is_traceback_shown")):
            output = said.pop("output")
            place = {"master": said.pop("master"), "confs": _confs(said.pop("conf") or [])}
            options = read_options(loaded.options, said)
            result = _executed(program.name, loaded, options, output, place)
        _print_result(result, loaded, output)

    command.__signature__ = pipeline_signature(loaded.options)  # type: ignore[attr-defined]  # read by typer
    command.__doc__ = program.help
    return command


def _executed(
    name: str, loaded: Loaded, options: BusOptions, output: Output, place: dict[str, Any]
) -> Result:
    """Run it until it ends or somebody interrupts it, which is no failure of its."""
    from bendybus.pipelines.execute import execute

    last = Reading("starting")
    try:
        with shown_readings(name, output) as show:

            def note(reading: Reading) -> None:
                nonlocal last
                last = reading
                show(reading)

            return execute(name, loaded, options, note, **place)
    except KeyboardInterrupt:
        typer.echo(
            f"bendybus: {name} was stopped after {last.rows:,} rows; run it again to go on",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def _confs(said: list[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in said]
    for name, equals, _ in pairs:
        if not (equals and name.startswith("spark.")):
            raise CommandFailed(f"--conf: '{name}' is not of the form spark.name=value")
    return {name: value for name, _, value in pairs}


def _print_result(result: Result, loaded: Loaded, output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps({"result": dict(result)}, default=str))
    elif loaded.as_text is not None:
        typer.echo(loaded.as_text(result))
    else:
        for name, value in result.items():
            shown = f"{value:,}" if isinstance(value, int | float) else value
            typer.echo(f"{name.replace('_', ' ')}: {shown}")


def _failing_command(program: Program, failure: PipelineFailed) -> Callable[[], None]:
    """Return a command that has help, and says why it cannot run."""

    def command() -> None:
        raise CommandFailed(str(failure))

    command.__doc__ = f"{program.help}\n\nNot here: {failure}"
    return command


def _project_command(folder: Path) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        """Run a declarative project by `spark-pipelines run`, which gets every other argument."""
        with _ending_in_one_line():
            code = run_project(folder, context.args)
        if code:
            raise typer.Exit(code)

    return command


@contextmanager
def _ending_in_one_line(*, is_traceback_shown: bool = False) -> Iterator[None]:
    try:
        yield
    except PipelineFailed as error:
        if is_traceback_shown:
            traceback.print_exc()
        raise CommandFailed(str(error)) from None
    except ArgumentInvalid as error:
        raise CommandFailed(error.message) from None
    except FileExistsError as error:
        raise CommandFailed(f"{error.filename} is there already; name a new file") from None
