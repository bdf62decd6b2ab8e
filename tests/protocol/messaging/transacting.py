"""A coordinator's link, from the client's end."""

from dataclasses import dataclass
from typing import Any

from bendybus.amqp.composite import encode_composite
from bendybus.amqp.outcomes import Accepted, Declare, Declared, Discharge, TransactionalState
from bendybus.amqp.performatives import Attach
from bendybus.amqp.sections import SectionCode
from bendybus.amqp.terminus import Coordinator, Source
from bendybus.testing.wire_client import Delivery, WireClient, WireLink
from tests.protocol.messaging.sample_messages import message

ACCEPTED = Accepted()


@dataclass(slots=True)
class Controller:
    """Declares and discharges transactions; numbers the deliveries of its session."""

    link: WireLink
    next_id: int = 1000

    async def tell(self, body: object, **fields: Any) -> Any:
        """Send the coordinator a message and return its answer."""
        self.next_id += 1
        return await self.link.sent(encode_body(body), self.next_id, **fields)

    def say(self, body: object, **fields: Any) -> int:
        """Send the coordinator a message and do not wait."""
        self.next_id += 1
        self.link.send(encode_body(body), self.next_id, **fields)
        return self.next_id

    async def declare(self) -> bytes:
        """Begin a transaction and return its id."""
        answer = await self.tell(Declare())
        assert isinstance(answer, Declared)
        return answer.txn_id

    async def commit(self, transaction: bytes) -> Any:
        """Ask for a commit and return the answer."""
        return await self.tell(Discharge(transaction, fail=False))

    async def roll_back(self, transaction: bytes) -> Any:
        """Ask for a roll-back and return the answer."""
        return await self.tell(Discharge(transaction, fail=True))


def encode_body(body: object) -> bytes:
    """Encode a message of one value."""
    return b"\x00\x53" + bytes((SectionCode.AMQP_VALUE,)) + encode_composite(body)


def coordinating(*, handle: int = 50, **fields: Any) -> Attach:
    """Return the Attach of a link to the coordinator."""
    fields.setdefault("source", Source(address="client"))
    fields.setdefault("target", Coordinator(("amqp:local-transactions",)))
    return Attach(
        name=f"coordinator-{handle}",
        handle=handle,
        role=False,
        initial_delivery_count=0,
        snd_settle_mode=0,
        **fields,
    )


async def controller_of(client: WireClient, *, channel: int = 0, handle: int = 50) -> Controller:
    """Attach to the coordinator."""
    link = await client.attach(coordinating(handle=handle), channel=channel)
    assert isinstance(link.answer.target, Coordinator), "the link was refused"
    return Controller(link)


def part_of(transaction: bytes, outcome: object = None) -> TransactionalState:
    """Return the state of what belongs to a transaction."""
    return TransactionalState(transaction, outcome)


async def send_part(
    sender: WireLink, delivery_id: int, transaction: bytes, payload: bytes | None = None
) -> Any:
    """Send a message in a transaction and return the outcome."""
    payload = message(partition_key="k") if payload is None else payload
    return await sender.sent(payload, delivery_id, state=part_of(transaction))


async def settle_part(
    receiver: WireLink, delivery: Delivery, transaction: bytes, outcome: object = ACCEPTED
) -> Any:
    """Settle a message in a transaction and return the broker's answer."""
    receiver.settle(delivery, part_of(transaction, outcome))
    return await receiver.confirmed(delivery)


async def held(
    client: WireClient, queue: str, count: int = 1, *, key: str = "k"
) -> tuple[WireLink, list[Delivery]]:
    """Send messages of one key and receive them all on one link."""
    sender = await client.sender(queue, handle=90)
    for number in range(count):
        await sender.sent(message(b"held %d" % number, partition_key=key), number)
    receiver = await client.receiver(queue, handle=91)
    receiver.flow(link_credit=count)
    return receiver, [await receiver.receive() for _ in range(count)]
