"""The command `bendybus`: one file per group of commands.

A command is imported when it is called: imports are most of what a short one takes, and whoever
lists queues does not need the broker.
"""

from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from bendybus.cli.failure import ending_in_one_line, say_the_rest
from bendybus.cli.kept_profiles import complete_profile, take_profile

# Where each command is, in the order in which `--help` shows them.
PLACES: Final = {
    "serve": "serve:serve",
    "cert": "cert:cert",
    "backup": "backup:backup",
    "restore": "restore:restore",
    "send": "send:send",
    "receive": "receive:receive",
    "peek": "peek:peek",
    "purge": "purge:purge",
    "redrive": "redrive:redrive",
    "pipeline": "pipeline:pipeline_commands",
    "queue": "entities:queue_commands",
    "topic": "entities:topic_commands",
    "subscription": "entities:subscription_commands",
    "rule": "rule:rule_commands",
    "session": "session:session_commands",
    "namespace": "namespace:namespace_commands",
    "store": "store:store_commands",
    "reader": "reader:reader_commands",
    "status": "status:status",
    "doctor": "doctor:doctor",
    "profile": "profile:profile_commands",
    "version": "version:version",
}
# Help in boxes cuts long options short on a terminal of 80 columns: one could not type them.
_LOOK: Final[dict[str, Any]] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}


class _Commands(TyperGroup):
    """Finds commands by their places. They are told apart by what stands there."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own
        """Return the names of all commands."""
        del ctx
        return list(PLACES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - typer's own
        """Import a command; None if there is none of that name."""
        del ctx
        place = PLACES.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        found = getattr(import_module(f"bendybus.cli.{module}"), name)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False, **_LOOK)
            alone.command(cmd_name)(found)
            return typer.main.get_command(alone)
        found.rich_markup_mode = _LOOK["rich_markup_mode"]
        group = typer.main.get_group(found)
        group.name = cmd_name
        return group


app = typer.Typer(
    name="bendybus",
    cls=_Commands,
    help="A self-hosted message broker that speaks the Azure Service Bus wire.",
    epilog="Start with: bendybus serve --config examples/namespace.yaml",
    no_args_is_help=True,
    **_LOOK,
)


@app.callback()
def begin(
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar="BENDYBUS_PROFILE",
            help="A broker that `bendybus profile` keeps.",
            autocompletion=complete_profile,
        ),
    ] = None,
) -> None:
    """Find out which broker is meant, before any command."""
    take_profile(profile)


def main() -> None:
    """Run the command line. Ends with 0, with 1 after a refusal, with 2 after wrong usage."""
    try:
        with ending_in_one_line():
            app()
    finally:
        say_the_rest()
