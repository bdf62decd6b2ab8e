"""`bendybus purge`: messages deleted unread, by the native client."""

from enum import StrEnum
from typing import Annotated

import typer

from bendybus.cli.messages import connected
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    ConnectionOption,
    DeadLetterOption,
    EntityArgument,
    SubscriptionOption,
)
from bendybus.client.message import MessageState
from bendybus.model.ids import SubQueue


class PurgedState(StrEnum):
    """Which messages are meant."""

    ACTIVE = "active"
    DEFERRED = "deferred"
    SCHEDULED = "scheduled"


def purge(
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    state: Annotated[PurgedState, typer.Option(help="Which messages.")] = PurgedState.ACTIVE,
    is_confirmed: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
) -> None:
    """Delete all messages that are there now, unread. Locked ones stay."""
    if not is_confirmed:
        place = f"the dead letters of {entity}" if is_dead_letter else entity
        typer.confirm(f"Delete all {state} messages of {place}?", abort=True)
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    with (
        connected(connection_string) as client,
        client.receiver(entity, subscription=subscription, sub_queue=sub_queue) as receiver,
    ):
        count = receiver.purge(state=MessageState[state.name])
    typer.echo(f"{count} deleted")
