"""How a message is printed: one line each, so that a stream of them can be followed and piped."""

import base64
import json
from datetime import datetime
from typing import Final

import typer

from bendybus.cli.options import Output
from bendybus.client.message import ReceivedMessage

_TEXT_LENGTH_MAX: Final = 120


def show(message: ReceivedMessage, output: Output) -> None:
    """Print a message."""
    typer.echo(_as_json(message) if output is Output.JSON else _as_text(message))


def _as_text(message: ReceivedMessage) -> str:
    body = _body(message)
    text = body["text"] if "text" in body else f"({len(body['base64'])} characters of base64)"
    text = " ".join(text.split())
    if len(text) > _TEXT_LENGTH_MAX:
        text = text[: _TEXT_LENGTH_MAX - 1] + "…"
    facts = [
        f"session={message.session_id}" if message.session_id is not None else "",
        f"reason={message.dead_letter_reason}" if message.dead_letter_reason else "",
        message.state.name.lower() if message.state.value else "",
    ]
    return "  ".join([str(message.sequence_number), *filter(None, facts), text])


def _as_json(message: ReceivedMessage) -> str:
    fields: dict[str, object] = {
        "sequence_number": message.sequence_number,
        "message_id": message.message_id,
        "enqueued_time": message.enqueued_time,
        "state": message.state.name.lower(),
        "delivery_count": message.delivery_count,
        "session_id": message.session_id,
        "partition_key": message.partition_key,
        "subject": message.subject,
        "content_type": message.content_type,
        "correlation_id": message.correlation_id,
        "scheduled_time": message.scheduled_time,
        "application_properties": message.application_properties,
        "body": _body(message),
    }
    given = {name: value for name, value in fields.items() if value not in (None, {})}
    return json.dumps(given, default=_plain, ensure_ascii=False)


def _body(message: ReceivedMessage) -> dict[str, str]:
    """Return the body as text where it is text, and without loss where it is not."""
    body = message.body
    if not isinstance(body, bytes):
        text = body if isinstance(body, str) else json.dumps(body, default=_plain)
        return {"text": text}
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
