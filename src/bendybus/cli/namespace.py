"""`bendybus namespace`: what the namespace is, and who may enter."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bendybus.cli.access_rule import access_rule_commands
from bendybus.cli.administered import managing
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.shown_entity import print_json
from bendybus.client.administration import Administration

namespace_commands = typer.Typer(
    help="Show the namespace, and make and renew its keys.", no_args_is_help=True
)
namespace_commands.add_typer(access_rule_commands(None), name="authorization-rule")


@namespace_commands.command("show")
@managing
def show_namespace(namespace: Administration, output: OutputOption = Output.TABLE) -> None:
    """Show the name, the tier and the times of the namespace."""
    info = namespace.namespace()
    shown = {
        "name": info.name,
        "tier": info.tier,
        "messagingUnits": info.messaging_units,
        "createdAt": info.created_at.isoformat(),
        "updatedAt": info.modified_at.isoformat(),
    }
    if output is Output.JSON:
        print_json(shown)
        return
    table = Table("property", "value")
    for name, value in shown.items():
        table.add_row(name, "" if value is None else str(value))
    Console().print(table)


@namespace_commands.command("exists")
@managing
def namespace_exists(
    namespace: Administration,
    name: Annotated[str | None, typer.Option("--name", "-n", help="It must be called so.")] = None,
) -> None:
    """End with 0 if the namespace answers to this key, and to this name if one is given."""
    info = namespace.namespace()
    if name is not None and name.lower() != info.name.lower():
        typer.echo(f"the namespace is '{info.name}'", err=True)
        raise typer.Exit(1)
