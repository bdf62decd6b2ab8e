"""Messages as JSON, one object per line: what `receive` and `peek` print, `send` takes back.

    {"message_id": "7", "body": {"text": "hello"}, "application_properties": {"colour": "red"}}

A body is `text`, or `base64` where it is none, or a `value` where it was sent as one. What JSON
has no word for is an object of one name: `{"$time": …}`, `{"$uuid": …}`, `{"$bytes": …}`. What
the broker said about a message (its number, its state, ...) is printed and not read back.
"""

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from bendybus.amqp.values import Timestamp
from bendybus.cli.failure import CommandFailed
from bendybus.client.encoded_message import instant, moment
from bendybus.client.message import DEAD_LETTER_PROPERTIES, Message, ReceivedMessage

_SAID_BY_THE_BROKER: Final = frozenset(
    {
        "sequence_number",
        "enqueued_time",
        "state",
        "delivery_count",
        "locked_until",
        "dead_letter_reason",
        "dead_letter_description",
        "dead_letter_source",
    }
)
_TEXTS: Final = (
    "session_id",
    "partition_key",
    "subject",
    "content_type",
    "to",
    "reply_to",
    "reply_to_session_id",
)
_IDS: Final = ("message_id", "correlation_id")
_OTHERS: Final = ("time_to_live", "scheduled_time", "application_properties", "body")
_READ: Final = frozenset({*_TEXTS, *_IDS, *_OTHERS})
_WRITERS: Final[Sequence[tuple[type, Callable[[Any], object]]]] = (
    (Timestamp, lambda value: {"$time": _isoformat(moment(value)) or str(int(value))}),
    (int, int),
    (uuid.UUID, lambda value: {"$uuid": str(value)}),
    (bytes, lambda value: {"$bytes": base64.b64encode(value).decode()}),
)


def to_json(message: ReceivedMessage) -> str:
    """Return a message as one line."""
    life = message.time_to_live
    properties = dict(message.application_properties)
    # Why it is a dead letter belongs to where it is, not to the message.
    for name in DEAD_LETTER_PROPERTIES if message.dead_letter_source is not None else ():
        properties.pop(name, None)
    fields: dict[str, object] = {
        "sequence_number": message.sequence_number,
        "enqueued_time": _isoformat(message.enqueued_time),
        "state": message.state.name.lower(),
        "delivery_count": message.delivery_count,
        "locked_until": _isoformat(message.locked_until),
        "dead_letter_reason": message.dead_letter_reason,
        "dead_letter_description": message.dead_letter_description,
        "dead_letter_source": message.dead_letter_source,
        **{name: getattr(message, name) for name in (*_IDS, *_TEXTS)},
        "time_to_live": None if life is None else life.total_seconds(),
        "scheduled_time": _isoformat(message.scheduled_time),
        "application_properties": properties,
        "body": body_to_json(message.body),
    }
    given = {name: plain(value) for name, value in fields.items() if value not in (None, {})}
    return json.dumps(given, ensure_ascii=False)


def body_to_json(body: object) -> dict[str, object]:
    """Return a body as text where it is text, and without loss where it is not."""
    if not isinstance(body, bytes):
        return {"value": plain(body)}
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}


def from_json(line: bytes) -> Message:
    """Read a message. Raises `CommandFailed` saying what is wrong with it."""
    try:
        given = json.loads(line.decode())
    except UnicodeDecodeError:
        raise CommandFailed("not UTF-8, as JSON is") from None
    except RecursionError:
        raise CommandFailed("JSON within JSON, too deep to be read") from None
    except ValueError as error:
        raise CommandFailed(f"not a line of JSON: {error}") from None
    if not isinstance(given, dict):
        raise CommandFailed('not an object such as {"body": {"text": "hello"}}')
    unknown = sorted(given.keys() - _READ - _SAID_BY_THE_BROKER)
    if unknown:
        raise CommandFailed(f"a message has no {unknown[0]!r}; it has {', '.join(sorted(_READ))}")
    said = {name: value for name, value in given.items() if value is not None}
    message = Message(_body(said.get("body", "")))
    for name in said.keys() & _FIELDS.keys():
        setattr(message, name, _FIELDS[name](said[name], name))
    return message


def plain(value: object) -> object:
    """Return a value as JSON can write it."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    return str(value)


def unplain(value: object) -> object:
    """Return a value that `plain` wrote."""
    if isinstance(value, list):
        return [unplain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(name, text)] = value.items()
        if name in _WRITTEN and isinstance(text, str):
            return _WRITTEN[name](text, name)
    return {name: unplain(each) for name, each in value.items()}


def _isoformat(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _body(given: object) -> object:
    if isinstance(given, str):
        return given.encode()
    if not isinstance(given, dict) or len(given) != 1 or given.keys() - {"text", "base64", "value"}:
        raise CommandFailed('body must be {"text": …}, {"base64": …} or {"value": …}')
    [(kind, content)] = given.items()
    if kind == "value":
        return unplain(content)
    if not isinstance(content, str):
        raise CommandFailed(f"body.{kind} must be a text")
    return content.encode() if kind == "text" else _bytes(content, "body.base64")


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise CommandFailed(f"{name} must be a text")
    return value


def _id(value: object, name: str) -> object:
    read = unplain(value)
    if isinstance(read, bool) or not isinstance(read, str | int | bytes | uuid.UUID):
        raise CommandFailed(f"{name} must be a text or a number")
    return read


def _seconds(value: object, name: str) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandFailed(f"{name} must be a number of seconds")
    return timedelta(seconds=value)


def _properties(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise CommandFailed(f"{name} must be an object")
    return {key: unplain(each) for key, each in value.items()}


def _moment(text: object, name: str) -> datetime:
    try:
        return datetime.fromisoformat(_text(text, name)).astimezone()
    except ValueError:
        raise CommandFailed(f"{name} must be a time such as 2030-01-31T12:00:00Z") from None


def _bytes(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise CommandFailed(f"{name} must be base64") from None


def _uuid(text: str, name: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise CommandFailed(f"{name} must be a UUID") from None


_WRITTEN: Final[dict[str, Callable[[str, str], object]]] = {
    "$time": lambda text, name: instant(_moment(text, name)),
    "$uuid": _uuid,
    "$bytes": _bytes,
}
_FIELDS: Final[dict[str, Callable[[object, str], object]]] = {
    **dict.fromkeys(_TEXTS, _text),
    **dict.fromkeys(_IDS, _id),
    "time_to_live": _seconds,
    "scheduled_time": _moment,
    "application_properties": _properties,
}
