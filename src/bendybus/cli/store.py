"""`bendybus store`: look at messaging stores, and drill the loss of one."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from bendybus.cli.failure import CommandFailed
from bendybus.cli.management import Management, find_management
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    ConnectionOption,
    Output,
    OutputOption,
)

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--management-url",
        envvar="BENDYBUS_MANAGEMENT_URL",
        help="Where the broker answers HTTP; by default port 5300 of the connection's host.",
    ),
]
NumberArgument = Annotated[int, typer.Argument(min=0, help="Stores are numbered from 0.")]

store_commands = typer.Typer(
    help="Look at the messaging stores, and take one away to see that the rest goes on.",
    no_args_is_help=True,
)


@store_commands.command("list")
def list_stores(
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    management_url: UrlOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every store, its state and its size."""
    _show(_stores(find_management(connection_string, management_url)), output)


@store_commands.command("offline")
def take_offline(
    number: NumberArgument,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    management_url: UrlOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take a store away, as its outage would. Nothing is lost: `online` brings it back.

    Meanwhile messages without a key go to other fragments; those whose key belongs to this
    store are refused with an error that clients retry.
    """
    _drill(find_management(connection_string, management_url), number, "offline", output)


@store_commands.command("online")
def bring_online(
    number: NumberArgument,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    management_url: UrlOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Bring a store back, with its messages."""
    _drill(find_management(connection_string, management_url), number, "online", output)


def _drill(management: Management, number: int, verb: str, output: Output) -> None:
    management.call("POST", f"/$stores/{number}/{verb}")
    _show([store for store in _stores(management) if store["number"] == number], output)


def _stores(management: Management) -> list[dict[str, Any]]:
    answer = management.call("GET", "/$stores")
    if not isinstance(answer, list):
        raise CommandFailed(f"{management.url} answers, but not as Bendybus does")
    return answer


def _show(stores: list[dict[str, Any]], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(stores, indent=2))
        return
    table = Table("store", "state", "fragments", "bytes", "path", "reason")
    for store in stores:
        table.add_row(
            str(store["number"]),
            store["state"],
            str(store["fragments"]),
            f"{store['bytes']:,}",
            store["path"],
            store["reason"] or "",
        )
    Console().print(table)
