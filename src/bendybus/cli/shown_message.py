"""How a message is printed: one line each, so that a stream of them can be followed and piped."""

import json
from typing import Final

import typer

from bendybus.cli.harmless import harmless
from bendybus.cli.message_json import body_to_json, to_json
from bendybus.cli.options import Output
from bendybus.client.message import ReceivedMessage

_TEXT_LENGTH_MAX: Final = 120


def show(message: ReceivedMessage, output: Output) -> None:
    """Print a message."""
    typer.echo(to_json(message) if output is Output.JSON else _as_text(message))


def _as_text(message: ReceivedMessage) -> str:
    text = " ".join(_body(message).split())
    if len(text) > _TEXT_LENGTH_MAX:
        text = text[: _TEXT_LENGTH_MAX - 1] + "…"
    facts = [
        f"session={message.session_id}" if message.session_id is not None else "",
        f"reason={message.dead_letter_reason}" if message.dead_letter_reason else "",
        message.state.name.lower() if message.state.value else "",
    ]
    return harmless("  ".join([str(message.sequence_number), *filter(None, facts), text]))


def _body(message: ReceivedMessage) -> str:
    [(kind, content)] = body_to_json(message.body).items()
    if kind == "base64":
        return f"({len(str(content))} characters of base64)"
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
