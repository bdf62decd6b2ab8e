"""`bendybus reader`: who keeps messages for itself, and taking them back."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from bendybus.cli.administered import managing
from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import (
    DeadLetterOption,
    EntityArgument,
    Output,
    OutputOption,
    SubscriptionOption,
)
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.shown_entity import print_json
from bendybus.client.administration import Administration
from bendybus.model.addresses import Address
from bendybus.model.ids import SubQueue

reader_commands = typer.Typer(
    help="Show who reserves messages, such as Spark streams, and give them back.",
    epilog="Example: bendybus reader release orders capture",
    no_args_is_help=True,
)


@reader_commands.command("list")
@managing
def list_readers(namespace: Administration, output: OutputOption = Output.TABLE) -> None:
    """Show every reader: what it has reserved, for how long, and what waits for it."""
    found = namespace.ask_json("GET", "/$readers")
    if not isinstance(found, list):
        raise CommandFailed(f"{namespace.http.url} answers, but not as Bendybus does")
    if output is Output.JSON:
        print_json(found)
    else:
        Console().print(readers_table(found))


@reader_commands.command("release")
@managing
def release_reader(
    namespace: Administration,
    entity: EntityArgument,
    reader: Annotated[str, typer.Argument(help="The reader, as `reader list` shows it.")],
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    skip_offline: Annotated[
        bool, typer.Option("--skip-offline", help="Leave out stores that are away.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make all that a reader has reserved free for everybody, and forget the reader.

    Whoever used it is refused from then on, and cannot go on from its checkpoint.
    """
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    address = Address(entity, subscription, sub_queue).resource
    wish = {"address": address, "reader": reader, "skipOffline": skip_offline}
    freed = namespace.ask_json("POST", "/$readers/release", wish)
    if not isinstance(freed, dict):
        raise CommandFailed(f"{namespace.http.url} answers, but not as Bendybus does")
    if output is Output.JSON:
        print_json(freed)
        return
    typer.echo(f"{freed['messages']:,} messages of '{address}' are free again")
    if freed["skipped"]:
        typer.echo(f"left out: fragments {', '.join(map(str, freed['skipped']))}")


def readers_table(found: list[dict[str, Any]]) -> PlainTable:
    """Return readers as people like to see them."""
    table = PlainTable("entity", "reader", "reserved", "bytes", "oldest", "waiting", "last used")
    for each in found:
        table.add(
            each["address"],
            each["reader"],
            f"{each['reservedMessages']:,}",
            f"{each['reservedBytes']:,}",
            _age(each["oldestAt"]),
            f"{each['lag']:,}",
            "now" if each["isActive"] else _age(each["activeAt"]) or "closed",
        )
    return table


def _age(moment: str | None) -> str:
    """Say how long ago something was, roughly."""
    if moment is None:
        return ""
    seconds = max(0, round((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit} ago"
    return f"{seconds}s ago"
