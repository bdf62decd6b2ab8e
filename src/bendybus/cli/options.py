"""Options that several commands have."""

from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.model.connection_string import ConnectionString
from bendybus.settings import DEFAULT_RULE_NAME, DEVELOPMENT_KEY

DEVELOPMENT_CONNECTION: Final = ConnectionString(
    host="localhost",
    rule_name=DEFAULT_RULE_NAME,
    key=DEVELOPMENT_KEY,
    use_development_emulator=True,
).to_text()


class Output(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


ConnectionOption = Annotated[
    str,
    typer.Option(
        "--connection-string",
        envvar="BENDYBUS_CONNECTION_STRING",
        help="What the broker printed at its start; by default the development one.",
        show_default=False,
    ),
]
UrlOption = Annotated[
    str | None,
    typer.Option(
        "--management-url",
        envvar="BENDYBUS_MANAGEMENT_URL",
        help="Where the broker answers HTTP; by default port 5300 of the connection's host.",
    ),
]
AuthorityOption = Annotated[
    Path | None,
    typer.Option(
        "--authority",
        envvar="BENDYBUS_AUTHORITY",
        help="The certificate of the authority to trust, such as the one of `bendybus cert`.",
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", help="For people, or JSON for programs.")]


def _completed(name: str) -> Callable[[typer.Context, str], list[str]]:
    """Return what completes a word. It needs a client, which only then is imported."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = getattr(import_module("bendybus.cli.completion"), name)(ctx, incomplete)
        return found

    return complete


EntityArgument = Annotated[
    str,
    typer.Argument(help="A queue or a topic.", autocompletion=_completed("complete_entity")),
]
SubscriptionOption = Annotated[
    str | None,
    typer.Option(
        "--subscription",
        help="A subscription of the topic.",
        autocompletion=_completed("complete_subscription"),
    ),
]
DeadLetterOption = Annotated[
    bool, typer.Option("--dead-letter", help="Its dead-letter queue instead.")
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter", help="Only messages for which this is true, such as \"colour = 'red'\"."
    ),
]
OlderOption = Annotated[
    str | None, typer.Option("--older-than", help="Enqueued so long ago, such as 36h or 7d.")
]
NewerOption = Annotated[
    str | None, typer.Option("--newer-than", help="Enqueued since, such as 15m.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; say how many it would be.")
]
