"""The management side of a namespace, for the time of a command."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Final

from bendybus.cli.connected import TRUST, connection_string_explained, trusting
from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    UrlOption,
)
from bendybus.client.administration import Administration
from bendybus.client.errors import ClientError, ConnectionLost, NotTrusted, Unauthorized
from bendybus.model.connection_string import parse_connection_string
from bendybus.model.errors import ArgumentInvalid

_HINTS: Final[dict[type[ClientError], str]] = {
    NotTrusted: f"; {TRUST}",
    ConnectionLost: "; start one with `bendybus serve`, or say where it is with --management-url",
    Unauthorized: " Give the connection string of a rule that may manage with --connection-string",
}
_DOORWAY: Final = {
    "connection_string": (ConnectionOption, DEVELOPMENT_CONNECTION),
    "management_url": (UrlOption, None),
    "authority": (AuthorityOption, None),
}


def managing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that find a namespace; it gets the namespace as its first."""

    @wraps(command)
    def wrapped(**said: Any) -> None:  # noqa: ANN401 - options of any kind
        doorway = {name: said.pop(name) for name in _DOORWAY}
        with administered(**doorway) as namespace:
            command(namespace, **said)

    own = list(inspect.signature(command).parameters.values())[1:]
    options = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in own]
    options += [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in _DOORWAY.items()
    ]
    wrapped.__signature__ = Signature(options)  # type: ignore[attr-defined]  # what typer reads
    return wrapped


def listed_here(namespace: Administration, path: str) -> list[dict[str, Any]]:
    """Return a list that this broker alone has; nothing where the service does not know it.

    Another service may answer whatever it likes to a path of ours: that there is nothing, a page,
    or, as Azure does, a feed of nothing.
    """
    try:
        found = namespace.ask_json("GET", path)
    except ClientError as error:
        if error.is_retryable:
            raise
        return []
    return found if isinstance(found, list) else []


@contextmanager
def administered(
    *, connection_string: str, management_url: str | None, authority: Path | None
) -> Iterator[Administration]:
    """Find a namespace; refusals end the command in one line that says what to do."""
    with connection_string_explained():
        parse_connection_string(connection_string)
    try:
        tls = None if authority is None else trusting(authority)
        yield Administration.from_connection_string(connection_string, management_url, tls)
    except ArgumentInvalid as error:
        raise CommandFailed(error.message) from None
    except ClientError as error:
        hint = next((text for kind, text in _HINTS.items() if isinstance(error, kind)), "")
        raise CommandFailed(f"{error}{hint}") from None
