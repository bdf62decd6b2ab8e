"""A received message as an answer: its body, and in headers what else there is to say."""

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from bendybus.content.outgoing_message import lock_token
from bendybus.content.plain_message import PlainContent, Scalar, decode_plain
from bendybus.http.exchange import Answer
from bendybus.http.rest_properties import http_date
from bendybus.model.message import Marks, MessageState, StoredMessage

# Properties whose names cannot be headers, or are those of the answer itself, go together in one.
OTHER_PROPERTIES: Final = "x-bendybus-user-properties"
# Some clients refuse answers of more than a hundred headers.
USER_HEADERS_MAX: Final = 64
# The service's word for "without end", in seconds.
_FOREVER_SECONDS: Final = 922_337_203_685.47754
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]{1,128}")
_PLAIN_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_OF_THE_ANSWER: Final = frozenset(
    {
        "brokerproperties",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "keep-alive",
        "location",
        "proxy-authenticate",
        "set-cookie",
        "strict-transport-security",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
        OTHER_PROPERTIES,
    }
)
_STATES: Final = {
    MessageState.ACTIVE: "Active",
    MessageState.DEFERRED: "Deferred",
    MessageState.SCHEDULED: "Scheduled",
}


def message_answer(stored: StoredMessage, *, is_locked: bool, url: str) -> Answer:
    """Answer with a message. `url` is that of the messages of its entity."""
    content = decode_plain(stored)
    headers = [("BrokerProperties", _broker_properties(stored, content, is_locked=is_locked))]
    body, default_type = _body(content)
    content_type = content.message.content_type
    if content_type is None or not _PLAIN_VALUE.fullmatch(content_type):
        content_type = default_type
    if content_type is not None:
        headers.append(("Content-Type", content_type))
    if is_locked:
        headers.append(("Location", f"{url}/{stored.sequence}/{lock_token(stored.lock)}"))
    headers += _user_headers(content.message.user)
    return Answer(201 if is_locked else 200, headers, body)


def _body(content: PlainContent) -> tuple[bytes, str | None]:
    """Return the bytes of a body, and what they are unless the message says so itself.

    Values and sequences of AMQP, which are no bytes, are written as JSON.
    """
    if not content.is_value:
        return content.message.body, None if content.value is None else "text/plain; charset=utf-8"
    return json.dumps(content.value, default=_json_value).encode(), "application/json"


def _json_value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _broker_properties(stored: StoredMessage, content: PlainContent, *, is_locked: bool) -> str:
    plain = content.message
    marks = stored.marks or Marks()
    properties: dict[str, object] = {
        # The delivery that this is counts, too.
        "DeliveryCount": stored.delivery_count + 1,
        "EnqueuedSequenceNumber": marks.enqueued_sequence
        or stored.enqueued_sequence
        or stored.sequence,
        "EnqueuedTimeUtc": _date(stored.enqueued_at),
        "MessageId": plain.message_id,
        "SequenceNumber": stored.sequence,
        "State": _STATES.get(MessageState(stored.state), "Active"),
        "TimeToLive": _FOREVER_SECONDS
        if plain.time_to_live_ms is None
        else plain.time_to_live_ms / 1000,
    }
    if is_locked and stored.locked_until is not None:
        properties["LockToken"] = str(lock_token(stored.lock))
        properties["LockedUntilUtc"] = _date(stored.locked_until)
    optional = {
        "ContentType": plain.content_type,
        "CorrelationId": plain.correlation_id,
        "DeadLetterSource": marks.dead_letter_source,
        "Label": plain.label,
        "PartitionKey": plain.partition_key,
        "ReplyTo": plain.reply_to,
        "ReplyToSessionId": plain.reply_to_session_id,
        "SessionId": plain.session_id,
        "To": plain.to,
        "ViaPartitionKey": plain.via_partition_key,
    }
    properties |= {name: value for name, value in optional.items() if value is not None}
    if plain.scheduled_at is not None:
        properties["ScheduledEnqueueTimeUtc"] = _date(plain.scheduled_at)
    return json.dumps(properties, separators=(",", ":"))


def _user_headers(user: dict[str, Scalar]) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    others: dict[str, Scalar] = {}
    for name, value in user.items():
        is_header = _NAME.fullmatch(name) and name.lower() not in _OF_THE_ANSWER
        if is_header and len(headers) < USER_HEADERS_MAX:
            headers.append((name, json.dumps(_shown(value))))
        else:
            others[name] = _shown(value)
    if others:
        headers.append((OTHER_PROPERTIES, json.dumps(others)))
    return headers


def _shown(value: Scalar) -> Scalar:
    return http_date(value) if isinstance(value, datetime) else value


def _date(instant: int) -> str:
    return _date_of(instant // 1000)


@lru_cache(maxsize=256)
def _date_of(second: int) -> str:
    """Write a time; messages that are received together came together."""
    return http_date(datetime.fromtimestamp(second, UTC))
