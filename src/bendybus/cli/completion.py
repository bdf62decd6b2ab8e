"""Names of entities, for the shell to complete: quickly or not at all."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import typer

from bendybus.atom.properties import Kind
from bendybus.cli.connected import trusting
from bendybus.cli.failure import CommandFailed
from bendybus.cli.kept_profiles import take_profile
from bendybus.cli.options import DEVELOPMENT_CONNECTION
from bendybus.client.administration import Administration
from bendybus.client.errors import ClientError
from bendybus.model.errors import BusError

# Whoever presses a key does not wait for a broker that is far away.
SECONDS_MAX: Final = 1.0
NAMES_MAX: Final = 100


def complete_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queues whose names begin so."""
    return _names(ctx, incomplete, [Kind.QUEUE])


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics whose names begin so."""
    return _names(ctx, incomplete, [Kind.TOPIC])


def complete_entity(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queues and topics whose names begin so."""
    return _names(ctx, incomplete, [Kind.QUEUE, Kind.TOPIC])


def complete_subscription(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the subscriptions whose names begin so, of the topic that was typed before."""
    # Behind an option that still lacks its value, arguments were not given their names.
    words = ctx.params.get("topic_name"), ctx.params.get("entity"), *ctx.args
    topic = next((word for word in words if word), None)
    return _names(ctx, incomplete, [Kind.SUBSCRIPTION], topic) if topic else []


def _names(
    ctx: typer.Context, incomplete: str, kinds: Iterable[Kind], topic: str | None = None
) -> list[str]:
    found: list[str] = []
    try:
        # Nothing has run yet that would have said which broker is meant.
        take_profile(ctx.find_root().params.get("profile") or os.environ.get("BENDYBUS_PROFILE"))
        for name in islice(_listed(kinds, topic, incomplete), NAMES_MAX):
            found.append(name)  # noqa: PERF402 - those that came before it failed count
    except (BusError, ClientError, CommandFailed):
        return found
    return found


def _listed(kinds: Iterable[Kind], topic: str | None, beginning: str) -> Iterator[str]:
    authority = os.environ.get("BENDYBUS_AUTHORITY")
    namespace = Administration.from_connection_string(
        os.environ.get("BENDYBUS_CONNECTION_STRING") or DEVELOPMENT_CONNECTION,
        os.environ.get("BENDYBUS_MANAGEMENT_URL") or None,
        trusting(Path(authority)) if authority else None,
        seconds_max=SECONDS_MAX,
    )
    for kind in kinds:
        for shown in namespace.list(kind, topic):
            if shown.name.startswith(beginning):
                yield shown.name
