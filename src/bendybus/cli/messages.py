"""`bendybus send`, `receive`, `peek`: messages from the command line, by the native client."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Annotated, Final

import typer

from bendybus.cli.failure import CommandFailed
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    ConnectionOption,
    DeadLetterOption,
    EntityArgument,
    Output,
    OutputOption,
    SubscriptionOption,
)
from bendybus.cli.shown_message import show
from bendybus.client import Client
from bendybus.client.blocking import Receiver
from bendybus.client.errors import ClientError
from bendybus.client.message import Message, ReceivedMessage
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import SubQueue

# How many messages are read from standard input, or received, before the next are.
TOGETHER: Final = 200
NEXT_SESSION: Final = ""


class Settling(StrEnum):
    """What becomes of a message that was printed."""

    COMPLETE = "complete"
    ABANDON = "abandon"
    DEAD_LETTER = "dead-letter"
    DEFER = "defer"


def send(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    bodies: Annotated[
        list[str] | None,
        typer.Argument(help="One message each. Without any, every line of standard input is one."),
    ] = None,
    session: Annotated[str | None, typer.Option(help="The session they belong to.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The partition key: the same key, the same fragment.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="Their label.")] = None,
    content_type: Annotated[str | None, typer.Option(help="Such as application/json.")] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", help="The id of the message, if it is only one.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", help="NAME=VALUE; may be repeated.")
    ] = None,
    time_to_live: Annotated[float | None, typer.Option(help="Seconds to live.", min=0)] = None,
    at: Annotated[
        datetime | None, typer.Option(help="When they are to appear, in local time.")
    ] = None,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
) -> None:
    """Send messages and return when the broker has them on disk."""
    if message_id is not None and len(bodies or ()) != 1:
        raise CommandFailed("--id is for a single message; give exactly one body with it")
    application_properties = dict(map(_property, properties or ()))

    def message(body: str) -> Message:
        made = Message(
            body.encode(),
            session_id=session,
            partition_key=key,
            subject=subject,
            content_type=content_type,
            time_to_live=None if time_to_live is None else timedelta(seconds=time_to_live),
            scheduled_time=None if at is None else at.astimezone(),
            application_properties=application_properties,
        )
        if message_id is not None:
            made.message_id = message_id
        return made

    lines = iter(bodies) if bodies else (line.rstrip("\n") for line in sys.stdin)
    count = 0
    with connected(connection_string) as client, client.sender(entity) as sender:
        while batch := [message(line) for line in islice(lines, TOGETHER)]:
            sender.send(batch)
            count += len(batch)
    typer.echo(f"{count} sent")


def receive(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    session: Annotated[
        str | None, typer.Option(help='A session, or "" for the next that has messages.')
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Stop when none came for so many seconds.")
    ] = 1.0,
    is_followed: Annotated[
        bool, typer.Option("--follow", help="Never stop; end it with Ctrl-C.")
    ] = False,
    settle: Annotated[
        Settling, typer.Option(help="What becomes of a message once it is printed.")
    ] = Settling.COMPLETE,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    output: OutputOption = Output.TABLE,
) -> None:
    """Receive messages, print each on a line, and settle it: by default it is gone then."""
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    left = sys.maxsize if count is None else count
    with connected(connection_string) as client:
        if session is not None:
            receiver: Receiver = client.accept_session(
                entity, session or None, subscription=subscription
            )
        else:
            receiver = client.receiver(entity, subscription=subscription, sub_queue=sub_queue)
        with receiver:
            while left > 0:
                some = receiver.receive(min(left, TOGETHER), None if is_followed else wait)
                if not some:
                    break
                left -= len(some)
                for message in some:
                    show(message, output)
                sys.stdout.flush()
                _settle(receiver, some, settle)


def peek(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    subscription: SubscriptionOption = None,
    is_dead_letter: DeadLetterOption = False,
    count: Annotated[int, typer.Option(min=1, help="At most so many.")] = 10,
    from_sequence: Annotated[
        int, typer.Option("--from", min=0, help="From this sequence number on.")
    ] = 0,
    is_merged: Annotated[
        bool, typer.Option("--merged", help="The oldest of all fragments together.")
    ] = False,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    output: OutputOption = Output.TABLE,
) -> None:
    """Look at messages without touching them: active, locked, deferred and scheduled ones."""
    sub_queue = SubQueue.DEAD_LETTER if is_dead_letter else SubQueue.MAIN
    with (
        connected(connection_string) as client,
        client.receiver(entity, subscription=subscription, sub_queue=sub_queue) as receiver,
    ):
        if is_merged:
            for message in receiver.peek_merged(count):
                show(message, output)
            return
        left = count
        while left > 0 and (some := receiver.peek(left, from_sequence)):
            for message in some:
                show(message, output)
            left -= len(some)
            from_sequence = (some[-1].sequence_number or 0) + 1


@contextmanager
def connected(connection_string: str) -> Iterator[Client]:
    """Open a client whose refusals end the command in one line."""
    try:
        with Client.from_connection_string(connection_string) as client:
            yield client
    except ArgumentInvalid as error:
        raise CommandFailed(f"{error.message}; the broker prints it when it starts") from None
    except ClientError as error:
        raise CommandFailed(str(error)) from None


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandFailed(f"--property {text!r} must be like colour=red")
    return name, value


def _settle(receiver: Receiver, messages: list[ReceivedMessage], how: Settling) -> None:
    match how:
        case Settling.COMPLETE:
            receiver.complete(messages)
        case Settling.ABANDON:
            receiver.abandon(messages)
        case Settling.DEAD_LETTER:
            receiver.dead_letter(messages, "Rejected", "by bendybus receive --settle dead-letter")
        case Settling.DEFER:
            receiver.defer(messages)
