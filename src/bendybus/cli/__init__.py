"""The command `bendybus`: one file per group of commands."""

from typing import Annotated

import typer

from bendybus import __version__
from bendybus.cli.cert import cert
from bendybus.cli.doctor import doctor
from bendybus.cli.entities import WORDS, entity_commands
from bendybus.cli.failure import ending_in_one_line
from bendybus.cli.namespace import namespace_commands
from bendybus.cli.peek import peek
from bendybus.cli.profile import profile_commands, take_profile
from bendybus.cli.purge import purge
from bendybus.cli.receive import receive
from bendybus.cli.redrive import redrive
from bendybus.cli.rule import rule_commands
from bendybus.cli.send import send
from bendybus.cli.serve import serve
from bendybus.cli.session import session_commands
from bendybus.cli.status import status
from bendybus.cli.store import store_commands

app = typer.Typer(
    name="bendybus",
    help="A self-hosted message broker that speaks the Azure Service Bus wire.",
    epilog="Start with: bendybus serve --config examples/namespace.yaml",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command()(serve)
app.command()(cert)
app.command()(send)
app.command()(receive)
app.command()(peek)
app.command()(purge)
app.command()(redrive)
app.command()(status)
app.command()(doctor)
for kind, word in WORDS.items():
    app.add_typer(entity_commands(kind), name=word)
app.add_typer(rule_commands, name="rule")
app.add_typer(session_commands, name="session")
app.add_typer(namespace_commands, name="namespace")
app.add_typer(profile_commands, name="profile")
app.add_typer(store_commands, name="store")


@app.callback()
def begin(
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", envvar="BENDYBUS_PROFILE", help="A broker that `bendybus profile` keeps."
        ),
    ] = None,
) -> None:
    """Find out which broker is meant, before any command."""
    take_profile(profile)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run the command line. Ends with 0, with 1 after a refusal, with 2 after wrong usage."""
    with ending_in_one_line():
        app()
