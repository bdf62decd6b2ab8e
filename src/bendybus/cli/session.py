"""`bendybus session`: which sessions there are, and their states."""

import base64
from typing import Annotated

import typer

from bendybus.cli.confirmed import confirm
from bendybus.cli.connected import connected
from bendybus.cli.harmless import echo
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    EntityArgument,
    Output,
    OutputOption,
    SubscriptionOption,
    YesOption,
)
from bendybus.cli.shown_entity import print_json

IdOption = Annotated[str, typer.Option("--session-id", help="The session.")]

session_commands = typer.Typer(
    help="Show, change and delete the sessions of a queue or subscription.",
    epilog="Example: bendybus session list orders",
    no_args_is_help=True,
)


@session_commands.command("list")
def list_sessions(
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the ids of sessions that have messages or a state, a line each."""
    with connected(connection_string, authority) as client:
        ids = client.sessions(entity, subscription=subscription)
    if output is Output.JSON:
        print_json(ids)
    else:
        for session_id in ids:
            echo(session_id)


@session_commands.command("show")
def show_session(
    entity: EntityArgument,
    session_id: IdOption,
    subscription: SubscriptionOption = None,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the state of a session that nobody holds: as text if it is one, or else as base64.

    The session is held while it is read.
    """
    with (
        connected(connection_string, authority) as client,
        client.accept_session(entity, session_id, subscription=subscription) as session,
    ):
        state = session.state()
    try:
        text = None if state is None else state.decode()
        shown = {"sessionId": session_id, "state": text}
    except UnicodeDecodeError:
        text = base64.b64encode(state or b"").decode()
        shown = {"sessionId": session_id, "stateBase64": text}
    if output is Output.JSON:
        print_json(shown)
    else:
        echo("" if text is None else text)


@session_commands.command("update")
def set_session_state(
    entity: EntityArgument,
    session_id: IdOption,
    state: Annotated[str, typer.Option("--state", help="The new state; '' to take it away.")],
    subscription: SubscriptionOption = None,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Replace the state of a session that nobody holds; one that is not there yet begins so."""
    with (
        connected(connection_string, authority) as client,
        client.accept_session(entity, session_id, subscription=subscription) as session,
    ):
        session.set_state(state.encode() or None)
    if output is Output.JSON:
        print_json({"sessionId": session_id, "state": state or None})


@session_commands.command("delete")
def delete_session(
    entity: EntityArgument,
    session_id: IdOption,
    is_confirmed: YesOption = False,
    subscription: SubscriptionOption = None,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete the state of a session that nobody holds, and its messages, unread.

    Deferred and scheduled messages stay: `bendybus purge --state` deletes those.
    """
    confirm(f"the session '{session_id}' of '{entity}'", is_confirmed=is_confirmed)
    with (
        connected(connection_string, authority) as client,
        client.accept_session(entity, session_id, subscription=subscription) as session,
    ):
        deleted = session.purge()
        session.set_state(None)
    if output is Output.JSON:
        print_json({"sessionId": session_id, "deletedMessages": deleted})
    else:
        typer.echo(f"{deleted:,} messages deleted")
