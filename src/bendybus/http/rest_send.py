"""REST: send a message, or a batch of them."""

import base64
import binascii
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.joined_send import JoinedSends
from bendybus.broker.send import (
    check_one_key,
    check_open_for_send,
    check_session_ids,
    group_by_fragment,
    send,
)
from bendybus.broker.served_queue import ServedQueue
from bendybus.content.plain_message import PlainMessage, encode_plain, read_plain
from bendybus.http.exchange import Answer, Request
from bendybus.http.rest_properties import (
    plain_of_properties,
    read_broker_properties,
    read_json,
    read_user_headers,
    read_user_json,
)
from bendybus.model.errors import ArgumentInvalid, MessageTooLarge
from bendybus.model.message import Message

BATCH_TYPE: Final = "application/vnd.microsoft.servicebus.json"
# What the service takes over HTTP, however much an entity takes otherwise.
MESSAGE_BYTES_MAX: Final = 1024 * 1024
# JSON may need so many times the bytes of the messages that it holds.
BATCH_BODY_FACTOR: Final = 2
BATCH_COUNT_MAX: Final = 5000
_BATCH_KEYS: Final = frozenset({"Body", "IsBodyBase64", "BrokerProperties", "UserProperties"})
_CREATED: Final = Answer(201)


def is_batch(content_type: str) -> bool:
    """Whether a body of that type holds many messages."""
    return content_type.partition(";")[0].strip().lower() == BATCH_TYPE


class RestSend:
    """Sends what comes by HTTP."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._joined = JoinedSends(clock)

    async def send(self, queue: ServedQueue, request: Request) -> Answer:
        """Store what a request holds; it is durable when the client hears of it."""
        check_open_for_send(queue)
        content_type = request.head.fields.get("content-type")
        if content_type is not None and is_batch(content_type):
            await self._send_batch(queue, request.body)
            return _CREATED
        plain = read_broker_properties(request.head.fields.get("brokerproperties"))
        plain.body = request.body
        if content_type is not None:
            plain.content_type = content_type
        plain.user = read_user_headers(request.head.headers)
        [message] = _messages(queue, [plain])
        check_session_ids(queue, [message])
        await self._joined.send(queue, message)
        return _CREATED

    async def _send_batch(self, queue: ServedQueue, body: bytes) -> None:
        """Store a batch, all of it or nothing; with ids as keys, each part of it on its own."""
        messages = _messages(queue, _read_batch(body))
        check_session_ids(queue, messages)
        check_one_key(queue, messages)
        groups = group_by_fragment(queue, messages)
        if queue.duplicate_window_ms is None:
            keyed = [each for each in groups if each is not None]
            await send(queue, messages, keyed[0] if keyed else None, self._clock)
            return
        for fragment, places in groups.items():
            await send(queue, [messages[at] for at in places], fragment, self._clock)


def _messages(queue: ServedQueue, plains: list[PlainMessage]) -> list[Message]:
    payloads = [encode_plain(plain) for plain in plains]
    size = sum(map(len, payloads))
    limit = min(queue.message_bytes_max, MESSAGE_BYTES_MAX)
    if size > limit:
        raise MessageTooLarge(
            f"The message or batch has {size} bytes; the entity '{queue.name}' takes {limit}."
        )
    is_id_wanted = queue.duplicate_window_ms is not None
    return [
        read_plain(plain, payload, is_id_wanted=is_id_wanted)
        for plain, payload in zip(plains, payloads, strict=True)
    ]


def _read_batch(body: bytes) -> list[PlainMessage]:
    entries = read_json(body, "The body")
    if not isinstance(entries, list) or not entries:
        raise ArgumentInvalid("A batch must be a JSON array of at least one message.")
    if len(entries) > BATCH_COUNT_MAX:
        raise ArgumentInvalid(f"A batch may have {BATCH_COUNT_MAX} messages.")
    return [_read_entry(entry, at) for at, entry in enumerate(entries)]


def _read_entry(entry: object, at: int) -> PlainMessage:
    if not isinstance(entry, dict) or not isinstance(entry.get("Body"), str):
        raise ArgumentInvalid(f"Message {at} of the batch must be an object with a text as Body.")
    unknown = entry.keys() - _BATCH_KEYS
    if unknown:
        raise ArgumentInvalid(f"Message {at} of the batch has the unknown key '{min(unknown)}'.")
    plain = plain_of_properties(entry.get("BrokerProperties") or {})
    plain.user = read_user_json(entry.get("UserProperties") or {})
    plain.body = _read_body(entry, at)
    return plain


def _read_body(entry: dict[str, object], at: int) -> bytes:
    text = entry["Body"]
    assert isinstance(text, str)
    is_base64 = entry.get("IsBodyBase64", False)
    if not isinstance(is_base64, bool):
        raise ArgumentInvalid(f"IsBodyBase64 of message {at} of the batch must be true or false.")
    try:
        return base64.b64decode(text, validate=True) if is_base64 else text.encode()
    except (binascii.Error, UnicodeEncodeError, ValueError):
        raise ArgumentInvalid(f"The Body of message {at} of the batch cannot be read.") from None
