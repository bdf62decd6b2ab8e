"""Requests and responses over a pair of links, as `$cbs` and `$management` want them."""

import itertools
import uuid
from dataclasses import dataclass, field
from typing import Final

from bendybus.amqp.events import TransferReceived
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.session import AmqpLink
from bendybus.amqp.values import DecodeError
from bendybus.client.answers import Answers
from bendybus.client.encoded_message import read_parts
from bendybus.client.errors import ClientError
from bendybus.client.link_end import LinkEnd
from bendybus.client.sending_end import SendingEnd

RESPONSE_CREDIT: Final = 100
_CORRELATION_ID: Final = 5


@dataclass(slots=True)
class Response:
    """An answer to a request, once it is here."""

    is_here: bool = False
    properties: dict[object, object] = field(default_factory=dict)
    body: object = None

    def status(self) -> tuple[int, str, str | None]:
        """Return number, text and condition. The two nodes spell their names differently."""
        properties = self.properties
        number = properties.get("statusCode", properties.get("status-code"))
        text = properties.get("statusDescription", properties.get("status-description"))
        condition = properties.get("errorCondition", properties.get("error-condition"))
        return (
            int(number) if isinstance(number, int) else 0,
            str(text) if isinstance(text, str) else "",
            str(condition) if isinstance(condition, str) else None,
        )


class ResponseEnd(LinkEnd):
    """The link on which responses come, and who waits for them."""

    def __init__(self, link: AmqpLink) -> None:
        super().__init__(link)
        self.awaited: dict[object, Response] = {}

    def take_transfer(self, event: TransferReceived) -> None:
        """Hand a response to whoever waits for it; one that nobody waits for came too late."""
        if not event.settled:
            self.link.settle(event.delivery_id, event.delivery_id, Accepted())
        if self.link.credit <= RESPONSE_CREDIT // 2:
            self.link.grant(RESPONSE_CREDIT)
        try:
            parts = read_parts(event.payload)
        except DecodeError as error:
            self.fail(ClientError(f"The broker's response cannot be read: {error}."))
            return
        response = self.awaited.pop(parts.property_at(_CORRELATION_ID), None)
        if response is not None:
            response.properties = parts.application_properties
            response.body = parts.body
            response.is_here = True


class RequestPair:
    """Both links of one node. They are attached when it is made and open some time later."""

    def __init__(self, requests: SendingEnd, responses: ResponseEnd, reply_to: str) -> None:
        self.requests = requests
        self.responses = responses
        self._reply_to = reply_to
        self._numbers = itertools.count(1)
        self._prefix = uuid.uuid4().hex

    @property
    def is_open(self) -> bool:
        """Whether the broker took both links."""
        return self.requests.is_open and self.responses.is_open

    @property
    def is_ready(self) -> bool:
        """Whether a request can be sent now."""
        return self.is_open and self.requests.link.sendable() > 0

    def check(self) -> None:
        """Raise the failure of either link."""
        self.requests.check()
        self.responses.check()

    def send(self, properties: dict[object, object], body: object) -> Response:
        """Send a request and return where its answer will be. Needs `is_ready`."""
        message_id = f"{self._prefix}:{next(self._numbers)}"
        payload = (
            encode_section(SectionCode.PROPERTIES, [message_id, None, None, None, self._reply_to])
            + encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
            + encode_section(SectionCode.AMQP_VALUE, body)
        )
        if self.responses.link.credit <= 0:
            self.responses.link.grant(RESPONSE_CREDIT)
        was_sent = self.requests.send(payload, Answers(1), 0)
        assert was_sent, "the pair was not ready"
        response = self.responses.awaited[message_id] = Response()
        return response
