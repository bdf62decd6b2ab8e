"""One connection to the broker, from its first byte to its end. Sans I/O, and without waiting.

What the broker does is kept here and in the ends of links until a step looks. A connection never
comes back to life: after a loss another one is made, and links are attached anew.
"""

import itertools
import uuid
from datetime import datetime
from typing import Any, Final, cast

from bendybus.amqp.conditions import UNAUTHORIZED_ACCESS
from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.deliveries import take_range
from bendybus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    EndReceived,
    Event,
    OpenReceived,
    OversizedTransferReceived,
    SenderDispositionReceived,
    SessionFailed,
    TransferReceived,
)
from bendybus.amqp.outcomes import AmqpError
from bendybus.amqp.session import AmqpLink, LinkRole
from bendybus.amqp.terminus import Coordinator, Source, Target
from bendybus.client.endpoint import Endpoint
from bendybus.client.errors import (
    ClientError,
    ConnectionLost,
    LinkLost,
    MessageTooLarge,
    Unauthorized,
    error_of,
)
from bendybus.client.link_end import LinkEnd
from bendybus.client.receiving_end import ReceivingEnd, Settling
from bendybus.client.request_pair import RequestPair, ResponseEnd
from bendybus.client.sending_end import Parcel, SendingEnd

CBS: Final = "$cbs"
MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
"""Larger than the largest message that any tier of the service takes."""
TRANSACTION_CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn")

_SETTLED_BY_SENDER: Final = 1
_UNSETTLED: Final = 0
_RECEIVER_SETTLES_SECOND: Final = 1


class Connection:
    """The engine, one session for all links, and what came on them."""

    def __init__(self, endpoint: Endpoint, container_id: str) -> None:
        self.endpoint = endpoint
        self.failure: ClientError | None = None
        self.is_open = False
        self.tokens: dict[str, datetime | None] = {}
        """By path, until when the broker knows a token of ours; None for one that we cannot
        renew."""
        self._amqp = AmqpConnection(
            ConnectionSettings(container_id=container_id, hostname=endpoint.host), Role.CLIENT
        )
        self._amqp.open()
        self._session = self._amqp.begin()
        self._ends: dict[AmqpLink, LinkEnd] = {}
        self._settling: Settling = {}
        self._names = itertools.count(1)
        self._name_start = uuid.uuid4().hex[:12]
        self._management: dict[str, RequestPair] = {}
        self._coordinator: SendingEnd | None = None
        self.token_node = self._request_pair(CBS)

    # What the shell calls

    def receive_data(self, data: bytes) -> None:
        """Take bytes from the broker."""
        self._handle(self._amqp.receive_data(data))

    def data_to_send(self) -> bytes:
        """Return and forget what must go to the broker."""
        return self._amqp.data_to_send()

    def tick(self, now_ms: int) -> None:
        """Heartbeat; notice a broker that fell silent."""
        self._handle(self._amqp.tick(now_ms))

    def next_tick_ms(self, now_ms: int) -> int | None:
        """Return after how many milliseconds a tick is due."""
        return self._amqp.next_tick_ms(now_ms)

    def lose(self, reason: str) -> None:
        """Note that the socket is gone."""
        self._fail(ConnectionLost(f"The connection to {self.endpoint} was lost: {reason}."))

    @property
    def is_over(self) -> bool:
        """Whether both sides have said their last: the socket can be closed."""
        return self._amqp.is_over

    def is_usable(self) -> bool:
        """Whether anything can still come of it."""
        return self.failure is None and not self._amqp.is_over

    # What steps call

    def check(self) -> None:
        """Raise the failure, if there is one."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def close(self) -> None:
        """Say goodbye. The broker's own Close makes the connection over."""
        self._amqp.close()

    def attach_sender(self, address: str) -> SendingEnd:
        """Ask for a link to send on."""
        return self._attach_sender(Target(address=address))

    def coordinator(self) -> SendingEnd:
        """Return the link that begins and ends transactions, asking for it the first time."""
        if self._coordinator is None or self._coordinator.failure is not None:
            self._coordinator = self._attach_sender(Coordinator(TRANSACTION_CAPABILITIES))
        return self._coordinator

    def attach_receiver(
        self,
        address: str,
        *,
        is_deleting: bool,
        prefetch: int,
        filters: dict[Any, Any] | None = None,
        properties: dict[Any, Any] | None = None,
    ) -> ReceivingEnd:
        """Ask for a link to receive on."""
        name = self._next_name(address)
        link = self._session.attach(
            name,
            LinkRole.RECEIVER,
            source=Source(address=address, filter=filters),
            target=Target(address=name),
            snd_settle_mode=_SETTLED_BY_SENDER if is_deleting else _UNSETTLED,
            rcv_settle_mode=0 if is_deleting else _RECEIVER_SETTLES_SECOND,
            max_message_size=MESSAGE_BYTES_MAX,
            properties=properties,
        )
        end = ReceivingEnd(link, prefetch, self._settling)
        self._ends[link] = end
        return end

    def management(self, path: str) -> RequestPair:
        """Return the management node of an entity, asking for its links the first time."""
        pair = self._management.get(path)
        if pair is None or pair.requests.failure or pair.responses.failure:
            pair = self._management[path] = self._request_pair(f"{path}/$management")
        return pair

    def receiving_ends(self) -> list[ReceivingEnd]:
        """Return the links that may hold messages nobody has taken."""
        ends = [end for end in self._ends.values() if isinstance(end, ReceivingEnd)]
        return [end for end in ends if end.is_open]

    def detach(self, end: LinkEnd, reason: ClientError) -> None:
        """End a link of ours."""
        end.fail(reason)
        end.link.detach()
        self._ends.pop(end.link, None)

    def _attach_sender(self, target: Target | Coordinator) -> SendingEnd:
        name = self._next_name("coordinator" if isinstance(target, Coordinator) else target.address)
        link = self._session.attach(
            name,
            LinkRole.SENDER,
            source=Source(address=name),
            target=target,
            snd_settle_mode=_UNSETTLED,
        )
        end = SendingEnd(link)
        self._ends[link] = end
        return end

    def _request_pair(self, address: str) -> RequestPair:
        requests = self.attach_sender(address)
        reply_to = self._next_name(address)
        link = self._session.attach(
            reply_to,
            LinkRole.RECEIVER,
            source=Source(address=address),
            target=Target(address=reply_to),
            max_message_size=MESSAGE_BYTES_MAX,
        )
        responses = ResponseEnd(link)
        self._ends[link] = responses
        return RequestPair(requests, responses, reply_to)

    def _next_name(self, address: object) -> str:
        return f"{self._name_start}-{next(self._names)}-{address}"

    # What the broker did

    def _handle(self, events: list[Event]) -> None:
        ends = self._ends
        for event in events:
            if type(event) is TransferReceived:
                end = ends.get(event.link)
                if end is not None:
                    end.take_transfer(event)
            elif type(event) is DispositionReceived:
                self._take_outcomes(event)
            elif type(event) is SenderDispositionReceived:
                self._take_confirmations(event)
            else:
                self._handle_rare(event)

    def _take_outcomes(self, event: DispositionReceived) -> None:
        for delivery in event.deliveries:
            answers, index = cast("Parcel", delivery.parcel)
            answers.note(index, event.state)
        if not event.settled:
            event.link.settle_sent(event.deliveries, event.state)

    def _take_confirmations(self, event: SenderDispositionReceived) -> None:
        if not event.settled:
            return
        for answers, index in take_range(self._settling, event.first_id, event.last_id):
            answers.note(index, event.state)

    def _handle_rare(self, event: Event) -> None:
        match event:
            case OpenReceived():
                self.is_open = True
            case AttachReceived():
                self._take_attach(event)
            case DetachReceived():
                self._take_detach(event)
            case OversizedTransferReceived():
                text = f"A message of {event.size} bytes came, more than this client takes."
                end = self._ends.get(event.link)
                if end is not None:
                    self.detach(end, MessageTooLarge(text))
            case CloseReceived() | EndReceived():
                self._amqp.close()
                self._fail(_ending(event.error))
            case SessionFailed() | ConnectionFailed():
                self._amqp.close()
                self._fail(_fault(event.condition, event.description))
            case _:
                pass

    def _take_attach(self, event: AttachReceived) -> None:
        end = self._ends.get(event.link)
        if end is not None:
            end.take_attach(event.attach)
        else:
            # The broker asks for a link of its own: this client serves none.
            event.link.refuse(AmqpError("amqp:not-implemented", "A client has no nodes."))

    def _take_detach(self, event: DetachReceived) -> None:
        event.link.detach()
        end = self._ends.pop(event.link, None)
        if end is not None:
            end.fail(error_of(event.error, LinkLost))

    def _fail(self, failure: ClientError) -> None:
        if self.failure is None:
            self.failure = failure
        for end in self._ends.values():
            end.fail(self.failure)
        self._ends.clear()


def _ending(error: AmqpError | None) -> ClientError:
    """Return why the broker ended the connection; whatever it says, it can be made again."""
    said = error_of(error, ConnectionLost)
    return ConnectionLost(
        f"The broker ended the connection: {said.description}", condition=said.condition
    )


def _fault(condition: str, description: str) -> ClientError:
    """Return what the engine found wrong; only a refusal to let us in is there to stay."""
    if condition == UNAUTHORIZED_ACCESS:
        return Unauthorized(description, condition=condition)
    return ConnectionLost(f"The connection failed: {description}.", condition=condition)
