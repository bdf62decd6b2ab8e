"""`bendybus profile`: brokers that one works with often, by name."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.shown_entity import print_json
from bendybus.model.connection_string import parse_connection_string
from bendybus.model.errors import ArgumentInvalid

# Which variable, read by the options of every command, a part of a profile stands for.
_VARIABLES: Final = {
    "connection_string": "BENDYBUS_CONNECTION_STRING",
    "management_url": "BENDYBUS_MANAGEMENT_URL",
    "authority": "BENDYBUS_AUTHORITY",
}

NameArgument = Annotated[str, typer.Argument(help="What you call it.")]

profile_commands = typer.Typer(
    help="Keep connection strings by name, in a file that only you can read.",
    epilog="Then: bendybus --profile staging queue list",
    no_args_is_help=True,
)


def profile_file() -> Path:
    """Return where profiles are kept."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "bendybus" / "profiles.json"


def take_profile(name: str | None) -> None:
    """Let a profile, the one in use if none is named, say what the environment does not.

    An option counts before a variable, and a variable before the profile in use; a profile that
    is named counts before variables.
    """
    kept = _read()
    chosen = name or kept["in_use"]
    if chosen is None:
        return
    found = kept["profiles"].get(chosen)
    if found is None:
        raise CommandFailed(f"there is no profile '{chosen}'; `bendybus profile list` shows them")
    # A broker named by a variable is not to be asked with the key or at the address of another.
    if name is None and any(variable in os.environ for variable in _VARIABLES.values()):
        return
    for part, variable in _VARIABLES.items():
        os.environ.pop(variable, None)
        if found.get(part):
            os.environ[variable] = found[part]


@profile_commands.command("add")
def add_profile(
    name: NameArgument,
    connection_string: Annotated[str, typer.Option(help="What the broker printed at its start.")],
    management_url: Annotated[
        str | None, typer.Option(help="Where it answers HTTP, if not where one would look.")
    ] = None,
    authority: Annotated[
        Path | None, typer.Option(help="The certificate of the authority to trust.")
    ] = None,
) -> None:
    """Keep a broker by name, or replace what was kept under it."""
    try:
        parse_connection_string(connection_string)
    except ArgumentInvalid as error:
        raise CommandFailed(error.message) from None
    kept = _read()
    kept["profiles"][name] = {
        "connection_string": connection_string,
        "management_url": management_url,
        "authority": None if authority is None else str(authority.resolve()),
    }
    _write(kept)


@profile_commands.command("list")
def list_profiles(output: OutputOption = Output.TABLE) -> None:
    """Show every profile, without its key."""
    kept = _read()
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
    table = Table("profile", "host", "management", "in use")
    for each in shown:
        mark = "*" if each["isInUse"] else ""
        table.add_row(str(each["name"]), str(each["host"]), each["managementUrl"] or "", mark)
    Console().print(table)


@profile_commands.command("use")
def use_profile(name: NameArgument) -> None:
    """Let commands that are told nothing else go to this one."""
    kept = _read()
    if name not in kept["profiles"]:
        raise CommandFailed(f"there is no profile '{name}'; make it with `bendybus profile add`")
    kept["in_use"] = name
    _write(kept)


@profile_commands.command("remove")
def remove_profile(name: NameArgument) -> None:
    """Forget a profile, with its key."""
    kept = _read()
    if kept["profiles"].pop(name, None) is None:
        raise CommandFailed(f"there is no profile '{name}'")
    if kept["in_use"] == name:
        kept["in_use"] = None
    _write(kept)


def _read() -> dict[str, Any]:
    path = profile_file()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"profiles": {}, "in_use": None}
    except ValueError:
        kept = None
    if not isinstance(kept, dict) or not isinstance(kept.get("profiles"), dict):
        raise CommandFailed(f"{path} is not a file of profiles; mend it, or delete it")
    return {"profiles": kept["profiles"], "in_use": kept.get("in_use")}


def _write(kept: dict[str, Any]) -> None:
    """Replace the file at once, so that it is whole and nobody else's at every moment."""
    path = profile_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as written:
        json.dump(kept, written, indent=2)
        written.flush()
        os.fsync(written.fileno())
    new.replace(path)
