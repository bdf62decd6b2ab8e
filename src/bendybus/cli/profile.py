"""`bendybus profile`: brokers that one works with often, by name."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bendybus.cli.failure import CommandFailed
from bendybus.cli.kept_profiles import complete_profile, read_profiles, write_profiles
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.plain_table import PlainTable
from bendybus.cli.shown_entity import print_json
from bendybus.model.connection_string import parse_connection_string
from bendybus.model.errors import ArgumentInvalid

NameArgument = Annotated[
    str, typer.Argument(help="What you call it.", autocompletion=complete_profile)
]

profile_commands = typer.Typer(
    help="Keep connection strings by name, in a file that only you can read.",
    epilog="Then: bendybus --profile staging queue list",
    no_args_is_help=True,
)


@profile_commands.command("add")
def add_profile(
    name: NameArgument,
    connection_string: Annotated[
        str,
        typer.Option(
            help="What the broker printed at its start; - reads it from standard input, so that its"
            " key is seen neither among the processes nor in the shell's history."
        ),
    ],
    management_url: Annotated[
        str | None, typer.Option(help="Where it answers HTTP, if not where one would look.")
    ] = None,
    authority: Annotated[
        Path | None, typer.Option(help="The certificate of the authority to trust.")
    ] = None,
) -> None:
    """Keep a broker by name, or replace what was kept under it."""
    if connection_string == "-":
        connection_string = sys.stdin.readline().strip()
    try:
        parse_connection_string(connection_string)
    except ArgumentInvalid as error:
        raise CommandFailed(error.message) from None
    kept = read_profiles()
    kept["profiles"][name] = {
        "connection_string": connection_string,
        "management_url": management_url,
        "authority": None if authority is None else str(authority.resolve()),
    }
    write_profiles(kept)


@profile_commands.command("list")
def list_profiles(output: OutputOption = Output.TABLE) -> None:
    """Show every profile, without its key."""
    kept = read_profiles()
    shown = [
        {
            "name": name,
            "host": parse_connection_string(found["connection_string"]).host,
            "managementUrl": found.get("management_url"),
            "isInUse": name == kept["in_use"],
        }
        for name, found in sorted(kept["profiles"].items())
    ]
    if output is Output.JSON:
        print_json(shown)
        return
    table = PlainTable("profile", "host", "management", "in use")
    for each in shown:
        mark = "*" if each["isInUse"] else ""
        table.add(str(each["name"]), str(each["host"]), each["managementUrl"] or "", mark)
    Console().print(table)


@profile_commands.command("use")
def use_profile(name: NameArgument) -> None:
    """Let commands that are told nothing else go to this one."""
    kept = read_profiles()
    if name not in kept["profiles"]:
        raise CommandFailed(f"there is no profile '{name}'; make it with `bendybus profile add`")
    kept["in_use"] = name
    write_profiles(kept)


@profile_commands.command("remove")
def remove_profile(name: NameArgument) -> None:
    """Forget a profile, with its key."""
    kept = read_profiles()
    if kept["profiles"].pop(name, None) is None:
        raise CommandFailed(f"there is no profile '{name}'")
    if kept["in_use"] == name:
        kept["in_use"] = None
    write_profiles(kept)
