"""`bendybus send`: messages from arguments, files and standard input."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from bendybus.cli.connected import connected
from bendybus.cli.failure import CommandFailed
from bendybus.cli.message_json import from_json
from bendybus.cli.options import (
    DEVELOPMENT_CONNECTION,
    AuthorityOption,
    ConnectionOption,
    EntityArgument,
    Output,
    OutputOption,
)
from bendybus.client.message import Message

# How many messages are read before they are sent together.
TOGETHER: Final = 500
# What the options say of messages that do not say it themselves.
_COMPLETED: Final = (
    "session_id",
    "partition_key",
    "subject",
    "content_type",
    "time_to_live",
    "scheduled_time",
)


BodiesArgument = Annotated[
    list[str] | None,
    typer.Argument(help="One message each. Without any, every line of standard input is one."),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file", exists=True, dir_okay=False, help="Every line of this file is a message."
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Every line is an object, such as `receive --output json` prints."),
]
SessionOption = Annotated[str | None, typer.Option(help="The session they belong to.")]
KeyOption = Annotated[
    str | None, typer.Option(help="The partition key: the same key, the same fragment.")
]
SubjectOption = Annotated[str | None, typer.Option(help="Their label.")]
ContentTypeOption = Annotated[str | None, typer.Option(help="Such as application/json.")]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The id of the message, if it is only one.")
]
PropertiesOption = Annotated[
    list[str] | None, typer.Option("--property", help="NAME=VALUE; may be repeated.")
]
LifeOption = Annotated[float | None, typer.Option(help="Seconds to live.", min=0)]
AtOption = Annotated[datetime | None, typer.Option(help="When they are to appear, in local time.")]


def send(  # noqa: PLR0913, PLR0917 - an option each
    entity: EntityArgument,
    bodies: BodiesArgument = None,
    file: FileOption = None,
    is_json: JsonOption = False,
    session: SessionOption = None,
    key: KeyOption = None,
    subject: SubjectOption = None,
    content_type: ContentTypeOption = None,
    message_id: IdOption = None,
    properties: PropertiesOption = None,
    time_to_live: LifeOption = None,
    at: AtOption = None,
    connection_string: ConnectionOption = DEVELOPMENT_CONNECTION,
    authority: AuthorityOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send messages and return when the broker has them on disk.

    Options apply to all of them; with `--json`, to those that do not say otherwise.

        bendybus send orders "hello" --property colour=red

        seq 1000 | bendybus send telemetry --key sensor-7

        bendybus receive orders --output json > saved.jsonl

        bendybus send orders --json --file saved.jsonl
    """
    if message_id is not None and len(bodies or ()) != 1:
        raise CommandFailed("--id is for a single message; give exactly one body with it")
    if bodies and file is not None:
        raise CommandFailed("give messages as arguments or with --file, not both")
    given = Message(
        session_id=session,
        partition_key=key,
        subject=subject,
        content_type=content_type,
        time_to_live=None if time_to_live is None else timedelta(seconds=time_to_live),
        scheduled_time=None if at is None else at.astimezone(),
        application_properties=dict(map(_property, properties or ())),
    )
    read: Callable[[bytes], Message] = from_json if is_json else Message
    count = 0
    with ExitStack() as stack:
        lines = map(os.fsencode, bodies) if bodies else _lines(stack, file)
        client = stack.enter_context(connected(connection_string, authority))
        sender = stack.enter_context(client.sender(entity))
        while batch := list(islice(lines, TOGETHER)):
            messages = [_read(read, line, count + index) for index, line in enumerate(batch)]
            for message in messages:
                _complete(message, given)
                message.message_id = message_id or message.message_id
            sender.send(messages)
            count += len(batch)
    typer.echo(f'{{"sent": {count}}}' if output is Output.JSON else f"{count} sent")


def _complete(message: Message, given: Message) -> None:
    """Let the options say what the message does not."""
    for name in _COMPLETED:
        if getattr(message, name) is None:
            setattr(message, name, getattr(given, name))
    message.application_properties = {
        **given.application_properties,
        **message.application_properties,
    }


def _lines(stack: ExitStack, file: Path | None) -> Iterator[bytes]:
    """Return lines as the bytes they are: a message need not be a text."""
    source = sys.stdin.buffer if file is None else stack.enter_context(file.open("rb"))
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in source)


def _read(read: Callable[[bytes], Message], line: bytes, before: int) -> Message:
    try:
        return read(line)
    except CommandFailed as error:
        raise CommandFailed(f"message {before + 1}: {error}; {_sent(before)}") from None


def _sent(before: int) -> str:
    whole = before - before % TOGETHER
    return f"the first {whole} were sent" if whole else "nothing was sent"


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandFailed(f"--property {text!r} must be like colour=red")
    return name, value
