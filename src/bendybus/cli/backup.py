"""`bendybus backup`: copy the embedded stores, also while a broker works on them."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.cli.options import Output, OutputOption
from bendybus.cli.progress import shown_bytes

FolderArgument = Annotated[Path, typer.Argument(help="A folder for the backup, empty or new.")]
DataOption = Annotated[
    Path, typer.Option(envvar="BENDYBUS_DATA", help="The folder that holds the stores.")
]
DEFAULT_DATA: Final = Path("bendybus-data")


def backup(
    folder: FolderArgument,
    data: DataOption = DEFAULT_DATA,
    output: OutputOption = Output.TABLE,
) -> None:
    """Copy all stores, with messages, entities and keys, as they are at one instant.

    The broker may go on: for a moment, some milliseconds, nobody can write, and what was accepted
    before is in the copy. Run it on the broker's machine, as the user that the broker runs as.
    `bendybus restore` brings it back.
    """
    from bendybus.store.sqlite.backing_up import back_up

    with shown_bytes("copied") as show:
        made = back_up(data, folder, show)
    if output is Output.JSON:
        pause_ms = round(made.pause_seconds * 1000, 1)
        typer.echo(json.dumps({**asdict(made.contents), "pause_ms": pause_ms}, indent=2))
        return
    typer.echo(
        f"{len(made.contents.stores)} stores, {made.contents.size:,} bytes, as of"
        f" {made.contents.made_at}; nobody could write for {made.pause_seconds * 1000:.0f} ms"
    )
    typer.echo("The keys of access rules are in it: keep it where only you can read it", err=True)
