"""A broker that does what a test says: the engine's server side, with a script in place of stores.

It takes every token and every link unless told otherwise, and keeps what it heard.
"""

import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings
from bendybus.amqp.events import (
    AttachReceived,
    CloseReceived,
    DetachReceived,
    DispositionReceived,
    FlowReceived,
    OpenReceived,
    SaslInitReceived,
    TransferReceived,
)
from bendybus.amqp.outcomes import (
    Accepted,
    AmqpError,
    Declare,
    Declared,
    Discharge,
    Rejected,
    TransactionalState,
)
from bendybus.amqp.performatives import Attach, compose
from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.session import AmqpLink, LinkRole
from bendybus.amqp.terminus import Coordinator
from bendybus.amqp.values import Int, Symbol
from bendybus.client.encoded_message import MessageParts, read_parts

TRANSACTION_ID = b"transaction-1"
CREDIT = 100

Answer = tuple[int, object]


class ScriptedBroker:
    """One per connection. The fields above `__init__`'s last block are the script."""

    def __init__(self) -> None:
        self.lets_in = True
        self.refusals: dict[str, AmqpError] = {}
        """By address, why a link to it is refused."""
        self.is_silent_on: set[str] = set()
        """Addresses whose Attach is never answered."""
        self.credit = CREDIT
        self.answers_messages = True
        self.outcomes: deque[object] = deque()
        """What to answer to the next messages; after that, accepted."""
        self.discharge_outcome: object = Accepted()
        self.operations: dict[str, Callable[[Any], Answer]] = {}
        self.attach_answer: Callable[[AmqpLink, Attach], dict[str, Any]] = lambda _link, _attach: {}
        self.to_deliver: deque[bytes] = deque()

        self.tokens: list[tuple[object, object]] = []
        self.attaches: list[Attach] = []
        self.messages: list[TransferReceived] = []
        self.requests: list[tuple[str, object]] = []
        self.transactions: list[Declare | Discharge] = []
        self.settlements: list[tuple[list[uuid.UUID], object, bool]] = []
        self.detached: list[str] = []
        self.links: dict[str, AmqpLink] = {}

        self.amqp = AmqpConnection(ConnectionSettings(container_id="scripted"))

    def receive(self, data: bytes) -> bytes:
        """Take a client's bytes and return the answer."""
        for event in self.amqp.receive_data(data):
            self._handle(event)
        return self.amqp.data_to_send()

    def _handle(self, event: Any) -> None:
        match event:
            case SaslInitReceived():
                for each in self.amqp.sasl_outcome(self.lets_in):
                    self._handle(each)
            case OpenReceived():
                self.amqp.open()
            case CloseReceived():
                self.amqp.close()
            case _:
                self._handle_link(event)

    def _handle_link(self, event: Any) -> None:
        match event:
            case AttachReceived():
                self._attach(event.link, event.attach)
            case DetachReceived():
                self.detached.append(event.link.name)
                event.link.detach()
            case TransferReceived():
                self._take(event)
            case FlowReceived() if event.link.role is LinkRole.SENDER:
                self._deliver(event.link)
            case DispositionReceived():
                tags = [uuid.UUID(bytes_le=delivery.tag) for delivery in event.deliveries]
                self.settlements.append((tags, event.state, event.settled))
                if not event.settled:
                    # The service confirms a dead-lettering by a rejection without the error.
                    is_rejected = isinstance(event.state, Rejected)
                    state = Rejected(None) if is_rejected else event.state
                    event.link.settle_sent(event.deliveries, state)
            case _:
                pass

    def _attach(self, link: AmqpLink, attach: Attach) -> None:
        if attach.source is None:
            # The client refuses a link that a test asked it for.
            return
        self.attaches.append(attach)
        address = address_of(attach)
        self.links[address] = link
        if address in self.is_silent_on:
            return
        if address in self.refusals:
            link.refuse(self.refusals[address])
            return
        link.accept_attach(max_message_size=1 << 20, **self.attach_answer(link, attach))
        if link.role is LinkRole.RECEIVER:
            link.grant(self.credit)

    def _take(self, event: TransferReceived) -> None:
        link = event.link
        assert link.peer_attach is not None
        address = address_of(link.peer_attach)
        if address == "coordinator":
            self._coordinate(event)
        elif address == "$cbs":
            parts = self._accept_request(event)
            self.tokens.append((parts.application_properties["name"], parts.body))
            self._respond("$cbs", parts, {"status-code": Int(202)}, None)
        elif address.endswith("/$management"):
            self._manage(address, self._accept_request(event))
        else:
            self.messages.append(event)
            if not self.answers_messages:
                return
            outcome = self.outcomes.popleft() if self.outcomes else Accepted()
            if isinstance(event.state, TransactionalState):
                outcome = TransactionalState(event.state.txn_id, outcome)
            link.settle(event.delivery_id, event.delivery_id, outcome)
            link.grant(self.credit)

    def _coordinate(self, event: TransferReceived) -> None:
        body = compose(read_parts(event.payload).body)
        assert isinstance(body, Declare | Discharge)
        self.transactions.append(body)
        is_declare = isinstance(body, Declare)
        outcome = Declared(TRANSACTION_ID) if is_declare else self.discharge_outcome
        event.link.settle(event.delivery_id, event.delivery_id, outcome)

    @staticmethod
    def _accept_request(event: TransferReceived) -> MessageParts:
        event.link.settle(event.delivery_id, event.delivery_id, Accepted())
        return read_parts(event.payload)

    def _manage(self, address: str, request: MessageParts) -> None:
        name = str(request.application_properties["operation"]).removeprefix("com.microsoft:")
        self.requests.append((name, request.body))
        status, body = self.operations[name](request.body)
        properties: dict[object, object] = {
            "statusCode": Int(status),
            "statusDescription": "as scripted",
        }
        if isinstance(body, Symbol):
            properties["errorCondition"], body = body, None
        self._respond(address, request, properties, body)

    def _respond(
        self, address: str, request: MessageParts, properties: dict[object, object], body: object
    ) -> None:
        payload = (
            encode_properties([None, None, None, None, None, request.property_at(0)])
            + encode_section(SectionCode.APPLICATION_PROPERTIES, properties)
            + encode_section(SectionCode.AMQP_VALUE, body)
        )
        link = self.links[f"from {address}"]
        link.send(payload, uuid.uuid4().bytes, settled=True)

    def _deliver(self, link: AmqpLink) -> None:
        assert link.peer_attach is not None
        if address_of(link.peer_attach).endswith(("$management", "$cbs")):
            return
        while self.to_deliver and link.sendable():
            tag = uuid.uuid4().bytes_le
            link.send(self.to_deliver.popleft(), tag, settled=link.snd_settle_mode == 1)
        if link.drain:
            link.answer_drain()


def address_of(attach: Attach) -> str:
    """Name the node of a link; that of one on which the client receives begins with `from`."""
    if attach.role:
        return f"from {attach.source.address}"  # type: ignore[attr-defined]  # a client's Source
    if isinstance(attach.target, Coordinator):
        return "coordinator"
    return str(attach.target.address)  # type: ignore[attr-defined]  # a client's Target
