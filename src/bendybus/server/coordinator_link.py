"""A client's link to the coordinator: it declares and discharges transactions (AMQP 1.0 §4)."""

from typing import Final

from bendybus.amqp.composite import compose
from bendybus.amqp.events import OversizedTransferReceived, TransferReceived
from bendybus.amqp.outcomes import Declare, Declared, Discharge
from bendybus.amqp.sections import SectionCode, decode_section, find_sections
from bendybus.amqp.session import AmqpLink
from bendybus.amqp.terminus import Coordinator, Source
from bendybus.amqp.values import DecodeError
from bendybus.broker.clock import Clock
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.transaction import Transaction
from bendybus.model.errors import (
    ArgumentInvalid,
    BusError,
    InvalidOperation,
    NotImplementedYet,
)
from bendybus.server.outlet import Outlet
from bendybus.server.translate import ACCEPTED, amqp_error, rejected

COORDINATOR_CREDIT: Final = 100
MESSAGE_BYTES_MAX: Final = 4096
CAPABILITIES: Final = (
    "amqp:local-transactions",
    "amqp:multi-txns-per-ssn",
    "amqp:multi-ssns-per-txn",
)
Delivery = TransferReceived | OversizedTransferReceived
_REJECTED: Final = "amqp:rejected:list"


class CoordinatorLink:
    """One link to the coordinator. What it declared is rolled back when it ends."""

    def __init__(
        self, outlet: Outlet, link: AmqpLink, transactions: OpenTransactions, clock: Clock
    ) -> None:
        self.link = link
        self._outlet = outlet
        self._transactions = transactions
        self._clock = clock
        self._committing = 0
        source = link.peer_attach.source if link.peer_attach is not None else None
        outcomes = source.outcomes if isinstance(source, Source) else None
        self._can_reject = outcomes is None or _REJECTED in outcomes

    def open(self) -> None:
        """Answer the Attach and let the client begin."""
        self.link.accept_attach(
            target=Coordinator(CAPABILITIES), max_message_size=MESSAGE_BYTES_MAX, properties={}
        )
        self.link.grant(COORDINATOR_CREDIT)

    def take(self, event: TransferReceived) -> None:
        """Do what a message asks for, in order with the sends and settlements around it."""
        try:
            body = _read_body(event.payload)
            if isinstance(body, Declare):
                self._declare(event, body)
            else:
                self._discharge(event, body)
        except BusError as error:
            self._refuse(event, error)
        self._regrant()

    def refuse_oversized(self, event: OversizedTransferReceived) -> None:
        """Refuse a message that cannot be one of ours."""
        self._refuse(event, ArgumentInvalid("A declare or discharge is smaller than that."))
        self._regrant()

    def close(self) -> None:
        """Roll back what was declared here and is open still."""
        self._transactions.roll_back(self)

    def _declare(self, event: TransferReceived, body: Declare) -> None:
        if event.settled:
            raise InvalidOperation("A declare must not be settled: its id could not be told.")
        if body.global_id is not None:
            raise NotImplementedYet("Distributed transactions are not served.")
        self._answer(event, Declared(self._transactions.declare(self)))

    def _discharge(self, event: TransferReceived, body: Discharge) -> None:
        transaction = self._transactions.take_out(body.txn_id)
        if body.fail:
            transaction.drop()
            self._answer(event, ACCEPTED)
        else:
            self._committing += 1
            self._outlet.spawn(self._commit(event, transaction))

    async def _commit(self, event: TransferReceived, transaction: Transaction) -> None:
        try:
            with self._transactions.writing(transaction):
                await transaction.commit(self._clock)
            self._answer(event, ACCEPTED)
        except BusError as error:
            self._refuse(event, error)
        finally:
            self._committing -= 1
            self._regrant()
            self._outlet.flush_soon()

    def _answer(self, event: Delivery, outcome: object) -> None:
        if not event.settled:
            self.link.settle(event.delivery_id, event.delivery_id, outcome)

    def _refuse(self, event: Delivery, error: BusError) -> None:
        """Reject the message; detach where the client cannot take that (§4.3)."""
        now = self._clock.now()
        if event.settled or not self._can_reject:
            self.close()
            self.link.detach(amqp_error(error, now))
        else:
            self._answer(event, rejected(error, now))

    def _regrant(self) -> None:
        """Renew the credit when half is used, less what is being committed."""
        room = COORDINATOR_CREDIT - self._committing
        if self.link.credit <= COORDINATOR_CREDIT // 2 and room > self.link.credit:
            self.link.grant(room)


def _read_body(payload: bytes) -> Declare | Discharge:
    """Take a message to the coordinator apart. Raises `ArgumentInvalid`."""
    try:
        for section in find_sections(payload):
            if section.code == SectionCode.AMQP_VALUE:
                body = compose(decode_section(payload, section))
                if isinstance(body, Declare | Discharge):
                    return body
    except DecodeError as error:
        raise ArgumentInvalid(f"The message to the coordinator: {error}.") from error
    raise ArgumentInvalid("A coordinator takes nothing but a declare or a discharge.")
