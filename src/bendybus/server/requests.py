"""Requests and responses over a pair of links: what `$cbs` and `$management` have in common."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from bendybus.amqp.outcomes import Accepted, TransactionalState
from bendybus.amqp.sections import (
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.amqp.session import AmqpLink, OutgoingDelivery
from bendybus.amqp.terminus import Target
from bendybus.amqp.values import DecodeError
from bendybus.model.addresses import Address
from bendybus.server.outlet import Outlet

# Responses that wait for the client's credit, of one link, and bytes of those of all links of a
# connection. Past that, the client is not reading them.
RESPONSES_WAITING_MAX: Final = 1000
RESPONSES_BYTES_MAX: Final = 8 * 1024 * 1024
_REPLY_TO: Final = 4


@dataclass(frozen=True, slots=True)
class Request:
    """One request, taken apart."""

    message_id: object
    reply_to: str | None
    properties: dict[str, object]
    body: object
    # Of the transaction that it is to be part of.
    transaction_id: bytes | None = None

    def text(self, name: str) -> str | None:
        """Return an application property that is a text."""
        value = self.properties.get(name)
        return value if isinstance(value, str) else None


def read_request(payload: bytes, state: object = None) -> Request:
    """Take a request apart. Raises `DecodeError`."""
    fields: list[object] = []
    properties: dict[object, object] = {}
    body: object = None
    for section in find_sections(payload):
        if section.code == SectionCode.PROPERTIES:
            fields = decode_list(payload, section)
        elif section.code == SectionCode.APPLICATION_PROPERTIES:
            properties = decode_map(payload, section)
        elif section.code == SectionCode.AMQP_VALUE:
            body = decode_section(payload, section)
    message_id = fields[0] if fields else None
    if message_id is None:
        raise DecodeError("the request has no message-id, so nobody could be answered")
    reply_to = fields[_REPLY_TO] if len(fields) > _REPLY_TO else None
    return Request(
        message_id,
        reply_to if isinstance(reply_to, str) else None,
        {_name(key): value for key, value in properties.items()},
        body,
        state.txn_id if isinstance(state, TransactionalState) else None,
    )


def _name(key: object) -> str:
    # pyamqp may send the keys of application properties as binary.
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def encode_response(request: Request, properties: dict[object, object], body: object) -> bytes:
    """Encode a response. The correlation id keeps the type of the id it answers."""
    return (
        encode_properties([None, None, None, None, None, request.message_id])
        + encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
        + encode_section(SectionCode.AMQP_VALUE, body)
    )


class ResponseLink:
    """A link on which a client takes the responses of one node."""

    def __init__(self, link: AmqpLink, address: Address, outlet: Outlet) -> None:
        self.link = link
        self.address = address
        self._outlet = outlet
        self._waiting: deque[bytes] = deque()
        self._sent = 0

    @property
    def target_address(self) -> object:
        """Where the client says that responses go; it names this in its requests."""
        attach = self.link.peer_attach
        target = attach.target if attach is not None else None
        return target.address if isinstance(target, Target) else None

    @property
    def has_room(self) -> bool:
        """Whether one more response may wait, of whatever size it will be."""
        is_small = self._outlet.response_bytes <= RESPONSES_BYTES_MAX
        return is_small and len(self._waiting) < RESPONSES_WAITING_MAX

    def send(self, payload: bytes) -> None:
        """Send a response, now or when there is credit; never, if the link is gone by now."""
        if self.link.is_open:
            self._waiting.append(payload)
            self._outlet.response_bytes += len(payload)
            self.pump()

    def close(self) -> None:
        """Forget what waits: the link is gone."""
        self._outlet.response_bytes -= sum(map(len, self._waiting))
        self._waiting.clear()

    def pump(self) -> None:
        """Send what waits, as far as the credit goes."""
        link = self.link
        if link.drain and not self._waiting:
            link.answer_drain()
        while self._waiting and link.sendable() > 0:
            self._sent += 1
            tag = self._sent.to_bytes(16, "big")
            payload = self._waiting.popleft()
            self._outlet.response_bytes -= len(payload)
            link.send(payload, tag, settled=link.snd_settle_mode == 1)

    def confirm(self, deliveries: list[OutgoingDelivery]) -> None:
        """Settle what the client accepted."""
        self.link.settle_sent(deliveries, Accepted())


def choose_response_link(
    candidates: list[ResponseLink], request_link: AmqpLink, reply_to: str | None
) -> ResponseLink | None:
    """Find the link that a response goes to.

    Of the links on the same node, those of the same session first: the one whose target is the
    request's reply-to, else whose name is, else the only one. Not every client sends a reply-to.
    """
    same_session = [each for each in candidates if each.link.session is request_link.session]
    for group in (same_session, candidates):
        for each in group:
            if reply_to is not None and each.target_address == reply_to:
                return each
        for each in group:
            if reply_to is not None and each.link.name == reply_to:
                return each
        if len(group) == 1:
            return group[0]
    return same_session[-1] if same_session else None
