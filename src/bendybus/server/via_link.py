"""A client sends to one entity by way of another, whose transfer queue takes the messages on."""

from typing import Final

from bendybus.amqp.events import TransferReceived
from bendybus.amqp.sections import SectionCode, decode_map, find_sections
from bendybus.amqp.session import AmqpLink
from bendybus.amqp.values import DecodeError
from bendybus.broker.clock import Clock
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.send_via import send_via
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.transaction import SentVia
from bendybus.model.errors import BusError
from bendybus.server.incoming_link import CREDIT, IncomingLink, run_of
from bendybus.server.outlet import Outlet
from bendybus.server.token_node import Access
from bendybus.server.translate import ACCEPTED

# The property of an Attach that names where messages are to go in the end.
DESTINATION: Final = "com.microsoft:transfer-destination-address"
_VIA_KEY: Final = "x-opt-via-partition-key"


class ViaLink(IncomingLink):
    """A link to `queue` by way of `via`, which becomes the home of transactions."""

    def __init__(
        self,
        outlet: Outlet,
        link: AmqpLink,
        queue: ServedQueue,
        clock: Clock,
        access: Access,
        transactions: OpenTransactions,
        via: ServedQueue,
    ) -> None:
        super().__init__(outlet, link, queue, clock, access, transactions)
        self._via = via

    def open(self) -> None:
        """Let the client begin; what comes is passed on one by one."""
        self.link.grant(CREDIT)

    def take(self, event: TransferReceived) -> None:
        """Let a delivery join its transaction, or pass it on by itself."""
        if event.state is not None:
            super().take(event)
            return
        self._outlet.note_read(len(event.payload))
        if self.rate is not None and not self._let_through([run_of(event)], self.rate):
            return
        self._unanswered += 1
        # Begun in the order in which they came, which is what keeps it.
        self._outlet.spawn(self._pass_on(event))

    def sent_via(self, event: TransferReceived) -> SentVia:
        """Say by way of what a delivery goes."""
        return SentVia(self._via, _via_key(event.payload))

    async def _pass_on(self, event: TransferReceived) -> None:
        try:
            key = _via_key(event.payload)
            await send_via(self._via, key, self.queue, self.messages_of(event), self._clock)
        except BusError as error:
            if not event.settled:
                self.refuse([event.delivery_id], error)
        else:
            if not event.settled:
                self.link.settle(event.delivery_id, event.delivery_id, ACCEPTED)
        finally:
            self._outlet.note_stored(len(event.payload))
            self._unanswered -= 1
            self.regrant()
            self._outlet.flush_soon()


def _via_key(payload: bytes) -> str | None:
    """Return the key that a message or batch has in the entity in between, if it has one.

    Whether the message is good is found out by whoever reads it.
    """
    try:
        for section in find_sections(payload):
            if section.code == SectionCode.MESSAGE_ANNOTATIONS:
                key = decode_map(payload, section).get(_VIA_KEY)
                return key if isinstance(key, str) else None
    except DecodeError:
        return None
    return None
