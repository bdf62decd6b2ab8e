"""`bendybus store`: look at messaging stores, and drill the loss of one."""

import json
import time
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bendybus.cli.administered import managing
from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.progress import shown_rows
from bendybus.client.administration import Administration

NumberArgument = Annotated[int, typer.Argument(min=0, help="Stores are numbered from 0.")]

PlaceArgument = Annotated[
    str,
    typer.Argument(
        envvar="BENDYBUS_MOVE_TO",
        help="The URL of an empty database, such as postgresql://user@host/database; from the"
        " variable, its password is not seen among the processes.",
    ),
]
_POLL_SECONDS: Final = 0.25

store_commands = typer.Typer(
    help="Look at the messaging stores, and take one away to see that the rest goes on.",
    no_args_is_help=True,
)


@store_commands.command("list")
@managing
def list_stores(
    namespace: Administration,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every store, its state and its size."""
    _show(_stores(namespace), output)


@store_commands.command("show")
@managing
def show_store(
    namespace: Administration,
    number: NumberArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one store: its state and why, its size, and where it is."""
    stores = _stores(namespace)
    if number >= len(stores):
        raise CommandFailed(f"there is no store {number}; they are 0 to {len(stores) - 1}")
    if output is Output.JSON:
        typer.echo(json.dumps(stores[number], indent=2))
    else:
        _show([stores[number]], output)


@store_commands.command("offline")
@managing
def take_offline(
    namespace: Administration,
    number: NumberArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take a store away, as its outage would. Nothing is lost: `online` brings it back.

    Meanwhile messages without a key go to other fragments; those whose key belongs to this
    store are refused with an error that clients retry.
    """
    _drill(namespace, number, "offline", output)


@store_commands.command("online")
@managing
def bring_online(
    namespace: Administration,
    number: NumberArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Bring a store back, with its messages."""
    _drill(namespace, number, "online", output)


@store_commands.command("move")
@managing
def move_store(
    namespace: Administration,
    number: NumberArgument,
    url: PlaceArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move a store to an empty PostgreSQL database, beside its traffic.

    The broker copies what the store holds while it goes on, and changes places in one step, for
    which calls wait a moment. Stop this command and it goes on; run it again to see how far it is,
    or to begin again where a broker was stopped in the middle. What was copied from stays.
    """
    path = f"/$stores/{number}/move"
    progress = namespace.ask_json("POST", path, {"url": url})
    with shown_rows("moving") as show:
        while progress["stage"] not in {"done", "failed"}:
            show(progress["stage"], progress["rows"], progress["rowsTotal"])
            time.sleep(_POLL_SECONDS)
            progress = namespace.ask_json("GET", path)
    if progress["stage"] == "failed":
        raise CommandFailed(f"store {number} was not moved: {progress['reason']}")
    if output is Output.JSON:
        typer.echo(json.dumps(progress, indent=2))
        return
    typer.echo(
        f"store {number} is at {progress['to']}: {progress['rows']:,} rows copied,"
        f" {progress['caughtUp']:,} again because they changed; calls waited"
        f" {progress['pauseMs']:.0f} ms"
    )


def _drill(namespace: Administration, number: int, verb: str, output: Output) -> None:
    namespace.ask_json("POST", f"/$stores/{number}/{verb}")
    _show([store for store in _stores(namespace) if store["number"] == number], output)


def _stores(namespace: Administration) -> list[dict[str, Any]]:
    answer = namespace.ask_json("GET", "/$stores")
    if not isinstance(answer, list):
        raise CommandFailed(f"{namespace.http.url} answers, but not as Bendybus does")
    return answer


def _show(stores: list[dict[str, Any]], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(stores, indent=2))
        return
    table = PlainTable("store", "state", "fragments", "bytes", "path", "reason")
    for store in stores:
        table.add(
            str(store["number"]),
            store["state"],
            str(store["fragments"]),
            f"{store['bytes']:,}",
            store["path"],
            store["reason"] or "",
        )
    Console().print(table)
