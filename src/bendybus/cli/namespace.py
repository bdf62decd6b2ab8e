"""`bendybus namespace`: what namespaces there are and what they are like, and who may enter."""

from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console

from bendybus.cli.access_rule import access_rule_commands
from bendybus.cli.administered import managing
from bendybus.cli.confirmed import confirm
from bendybus.cli.options import Output, OutputOption, YesOption
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.shown_entity import print_deleted, print_json
from bendybus.client.administration import Administration
from bendybus.model.connection_string import ConnectionString
from bendybus.model.hosts import host_beside
from bendybus.model.tier import PremiumPartitioning, TierName

NameOption = Annotated[str, typer.Option("--name", "-n", help="The name of the namespace.")]
SkuOption = Annotated[
    TierName | None, typer.Option("--sku", help="The tier; Standard if nothing is said.")
]
PartitioningOption = Annotated[
    PremiumPartitioning | None,
    typer.Option("--premium-partitioning", help="Of Premium: which entities are partitioned."),
]
PartitionsOption = Annotated[
    int | None,
    typer.Option(
        "--premium-messaging-partitions",
        help="Of Premium: how many fragments every entity has, 1, 2 or 4.",
    ),
]

namespace_commands = typer.Typer(
    help="Make, show, change and delete namespaces, and make and renew their keys.",
    epilog="Example: bendybus namespace create --name team-blue --sku Standard",
    no_args_is_help=True,
)
namespace_commands.add_typer(access_rule_commands(None), name="authorization-rule")


@namespace_commands.command("list")
@managing
def list_namespaces(namespace: Administration, output: OutputOption = Output.TABLE) -> None:
    """Show every namespace of the broker. Needs a key of the default one."""
    listed = namespace.ask_json("GET", "/$namespaces")
    if output is Output.JSON:
        print_json(listed)
        return
    table = PlainTable("namespace", "sku", "queues", "topics", "made by", "created")
    for each in listed:
        made_by = "configuration" if each["isConfigured"] else "command"
        counts = str(each["queues"]), str(each["topics"])
        table.add(each["name"], each["sku"], *counts, made_by, each["createdAt"] or "")
    Console().print(table)


@namespace_commands.command("show")
@managing
def show_namespace(
    namespace: Administration,
    name: Annotated[
        str | None,
        typer.Option("--name", "-n", help="Another than the connection's own; see `list`."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the name, the tier and the times of the namespace."""
    if name is not None:
        _print(namespace.ask_json("GET", _path(name)), output)
        return
    info = namespace.namespace()
    shown = {
        "name": info.name,
        "tier": info.tier,
        "messagingUnits": info.messaging_units,
        "createdAt": info.created_at.isoformat(),
        "updatedAt": info.modified_at.isoformat(),
    }
    _print(shown, output)


@namespace_commands.command("create")
@managing
def create_namespace(
    namespace: Administration,
    name: NameOption,
    sku: SkuOption = None,
    premium_partitioning: PartitioningOption = None,
    premium_messaging_partitions: PartitionsOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a namespace, and print what opens it. Needs a key of the default one.

    It is there at once, for clients whose host begins with its name.
    """
    wish = _wish(sku, premium_partitioning, premium_messaging_partitions)
    made = namespace.ask_json("PUT", _path(name), wish)
    connection_string = _connection_string(namespace, made)
    if output is Output.JSON:
        print_json({**made, "primaryConnectionString": connection_string})
        return
    _print({key: value for key, value in made.items() if "Key" not in key}, output)
    # Whole, however wide the window is.
    typer.echo(f"Connection string: {connection_string}")


@namespace_commands.command("update")
@managing
def update_namespace(
    namespace: Administration,
    name: NameOption,
    sku: SkuOption = None,
    premium_partitioning: PartitioningOption = None,
    premium_messaging_partitions: PartitionsOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change the tier of a namespace, for what is made in it from now on."""
    wish = _wish(sku, premium_partitioning, premium_messaging_partitions)
    _print(namespace.ask_json("PATCH", _path(name), wish), output)


@namespace_commands.command("delete")
@managing
def delete_namespace(
    namespace: Administration,
    name: NameOption,
    is_confirmed: YesOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a namespace with its keys and all its entities, with what they hold."""
    path = _path(name)
    shown = namespace.ask_json("GET", path)
    has_entities = bool(shown["queues"] or shown["topics"])
    has = f", which has {shown['queues']} queues and {shown['topics']} topics" * has_entities
    confirm(f"the namespace '{shown['name']}'{has}", is_confirmed=is_confirmed)
    if has_entities or is_confirmed:
        path += "?withEntities=true"
    namespace.ask_json("DELETE", path)
    print_deleted(shown["name"], output)


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


def _wish(
    sku: TierName | None, partitioning: PremiumPartitioning | None, fragments: int | None
) -> dict[str, Any]:
    said = {
        "sku": None if sku is None else sku.value,
        "premiumPartitioning": None if partitioning is None else partitioning.value,
        "premiumMessagingPartitions": fragments,
    }
    return {name: value for name, value in said.items() if value is not None}


def _path(name: str) -> str:
    return f"/$namespaces/{quote(name, safe='')}"


def _connection_string(namespace: Administration, made: dict[str, Any]) -> str:
    """Say how clients enter that reach the broker as this command did."""
    used = namespace.http.connection
    return ConnectionString(
        host=host_beside(used.host, made["name"]),
        port=used.port,
        rule_name=made["keyName"],
        key=made["primaryKey"],
        use_development_emulator=used.use_development_emulator,
    ).to_text()


def _print(shown: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        print_json(shown)
        return
    table = PlainTable("property", "value")
    for name, value in shown.items():
        table.add(name, "" if value is None else str(value))
    Console().print(table)
