"""Properties of messages as HTTP has them: `BrokerProperties` as JSON, the user's as headers.

What a sender's JSON does not know is left out, as the service does: clients send received
properties again, with sequence numbers and locks among them.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any, Final

from bendybus.content.plain_message import PlainMessage, Scalar
from bendybus.model.durations import parse_duration
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.ids import Instant

# Headers of requests that say how the request travels, not what the message says.
_OF_THE_REQUEST: Final = frozenset(
    {
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "authorization",
        "brokerproperties",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "date",
        "dnt",
        "expect",
        "forwarded",
        "host",
        "if-match",
        "if-none-match",
        "keep-alive",
        "origin",
        "pragma",
        "proxy-authorization",
        "proxy-connection",
        "referer",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "upgrade-insecure-requests",
        "user-agent",
        "via",
    }
)
_OF_THE_REQUEST_PREFIXES: Final = ("x-ms-", "x-forwarded-", "sec-", "servicebus")
_NUMBER: Final = re.compile(r"-?\d{1,19}|-?\d{1,19}\.\d{1,19}(?:[Ee][+-]?\d{1,3})?")
_LONG_MAX: Final = 2**63 - 1
_SECONDS_MAX: Final = 922_337_203_685.0


def read_broker_properties(text: str | None) -> PlainMessage:
    """Read the header of a sent message. Raises `ArgumentInvalid`."""
    if text is None:
        return PlainMessage()
    return plain_of_properties(read_json(text, "BrokerProperties"))


def read_json(text: str | bytes, what: str) -> object:
    """Read JSON; numbers that are none (NaN) and depths that are a trick are refused."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ArgumentInvalid(f"{what} is not valid JSON.", argument=what) from None


def _no_constant(name: str) -> object:
    raise ValueError(name)


def plain_of_properties(properties: object) -> PlainMessage:
    """Take what a sender can say from its JSON. Raises `ArgumentInvalid`."""
    if not isinstance(properties, dict):
        raise ArgumentInvalid(
            "BrokerProperties must be a JSON object.", argument="BrokerProperties"
        )
    plain = PlainMessage()
    for name, value in properties.items():
        known = _READERS.get(name.lower())
        if known is not None and value is not None:
            attribute, read = known
            setattr(plain, attribute, read(value, name))
    return plain


def _text(value: object, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ArgumentInvalid(f"{name} in BrokerProperties must be a text.", argument=name)


def _seconds(value: object, name: str) -> int | None:
    """Read a time to live in seconds, also as text, as one of the official clients writes it."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    if isinstance(value, bool) or not seconds >= 0:
        raise ArgumentInvalid(f"{name} in BrokerProperties must be a number of seconds.")
    if seconds == 0:
        raise ArgumentOutOfRange(f"{name} in BrokerProperties must be more than nothing.")
    # As much as the service has for "without end".
    return None if seconds >= _SECONDS_MAX else max(1, round(seconds * 1000))


def _span(value: object, name: str) -> int | None:
    """Read a time to live as `[d.]hh:mm:ss[.fff]` or in the form of ISO 8601."""
    text = _text(value, name)
    matched = re.fullmatch(r"(?:(\d{1,8})\.)?(\d{1,2}):([0-5]?\d):([0-5]?\d(?:\.\d{1,7})?)", text)
    if matched is None:
        seconds = parse_duration(text).total_seconds()
    else:
        days, hours, minutes, rest = matched.groups()
        seconds = int(days or 0) * 86_400 + int(hours) * 3600 + int(minutes) * 60 + float(rest)
    return _seconds(seconds, name)


def _moment(value: object, name: str) -> Instant:
    """Read a point in time in the form of HTTP or of ISO 8601; without a zone it is UTC."""
    text = _text(value, name).strip()
    try:
        moment = datetime.fromisoformat(text) if text[:1].isdecimal() else None
        moment = moment or parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return Instant(max(0, round(moment.timestamp() * 1000)))
    except (ValueError, OverflowError, TypeError, IndexError):
        raise ArgumentInvalid(
            f"{name} in BrokerProperties must be a time such as 'Sun, 06 Nov 1994 08:49:37 GMT'.",
            argument=name,
        ) from None


_READERS: Final[Mapping[str, tuple[str, Callable[[Any, str], object]]]] = {
    "contenttype": ("content_type", _text),
    "correlationid": ("correlation_id", _text),
    "label": ("label", _text),
    "subject": ("label", _text),
    "messageid": ("message_id", _text),
    "partitionkey": ("partition_key", _text),
    "replyto": ("reply_to", _text),
    "replytosessionid": ("reply_to_session_id", _text),
    "scheduledenqueuetimeutc": ("scheduled_at", _moment),
    "sessionid": ("session_id", _text),
    "timetolive": ("time_to_live_ms", _seconds),
    "timetolivetimespan": ("time_to_live_ms", _span),
    "to": ("to", _text),
    "viapartitionkey": ("via_partition_key", _text),
}


def read_user_headers(headers: Iterable[tuple[str, str]]) -> dict[str, Scalar]:
    """Return the properties that the headers of a sent message are."""
    properties: dict[str, Scalar] = {}
    for name, value in headers:
        key = name.lower()
        if key in _OF_THE_REQUEST or key.startswith(_OF_THE_REQUEST_PREFIXES):
            continue
        properties[name] = _read_user_value(value)
    return properties


def _read_user_value(value: str) -> Scalar:
    """Read `"text"`, a number, true or false; whatever else is text as it stands."""
    text = _utf8(value)
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            read = json.loads(text)
        except ValueError:
            # One of the official clients escapes quotes only.
            return text[1:-1].replace('\\"', '"')
        return str(read)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _NUMBER.fullmatch(text):
        number = float(text) if "." in text else int(text)
        return number if abs(number) <= _LONG_MAX else text
    return text


def _utf8(value: str) -> str:
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def read_user_json(properties: object) -> dict[str, Scalar]:
    """Return the properties that a message of a batch has. Raises `ArgumentInvalid`."""
    if not isinstance(properties, dict):
        raise ArgumentInvalid("UserProperties must be a JSON object.", argument="UserProperties")
    for name, value in properties.items():
        if isinstance(value, dict | list):
            raise ArgumentInvalid(f"The property '{name}' is neither text nor number nor boolean.")
        if isinstance(value, int) and abs(value) > _LONG_MAX:
            raise ArgumentOutOfRange(f"The property '{name}' is too large a number.")
    return properties


def http_date(moment: datetime) -> str:
    """Return a time as HTTP and the service write it."""
    return format_datetime(moment, usegmt=True)
