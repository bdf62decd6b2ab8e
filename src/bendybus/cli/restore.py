"""`bendybus restore`: bring back what `bendybus backup` has copied."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bendybus.cli.backup import DEFAULT_DATA, DataOption
from bendybus.cli.options import Output, OutputOption
from bendybus.cli.progress import shown_bytes

FolderArgument = Annotated[Path, typer.Argument(help="The folder of the backup.")]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Put the stores that are there aside, into a folder beside them."),
]


def restore(
    folder: FolderArgument,
    data: DataOption = DEFAULT_DATA,
    force: ForceOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put the stores of a backup into a data folder: all of them, or none.

    The broker must not run on the folder. The backup is compared with its checksums first, and
    nothing changes unless all of it is as it was written.
    """
    from bendybus.store.sqlite.backup_contents import read_list
    from bendybus.store.sqlite.restoring import restore as restore_stores

    # Each byte is compared, and then copied.
    total = 2 * read_list(folder).size
    with shown_bytes("restored") as show:
        contents = restore_stores(
            folder, data, is_forced=force, on_bytes=lambda done: show(done, total)
        )
    if output is Output.JSON:
        typer.echo(json.dumps(asdict(contents), indent=2))
        return
    typer.echo(
        f"{len(contents.stores)} stores as of {contents.made_at} are in {data}; start the broker"
        " with `bendybus serve`"
    )
