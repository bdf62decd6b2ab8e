"""Receivers of sessions, as clients attach them."""

from typing import Any

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Attach, Detach
from bendybus.amqp.terminus import Source
from bendybus.amqp.values import Symbol, Ulong
from bendybus.testing.wire_client import Delivery, WireClient, WireLink, receiving
from tests.protocol.messaging.places import sent_to
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message, see

SESSION_FILTER = Symbol("com.microsoft:session-filter")
TIMEOUT = Symbol("com.microsoft:timeout")
LOCKED_UNTIL = Symbol("com.microsoft:locked-until-utc")
GO_DESCRIPTOR = Ulong(0x137000000C)


def asking(queue: str, session_id: object, *, handle: int = 1, **fields: Any) -> Attach:
    """Return the Attach of a receiver that asks for a session; None means the next."""
    source = Source(address=queue, filter={SESSION_FILTER: session_id})
    return receiving(queue, handle=handle, source=source, **fields)


async def post(client: WireClient, queue: str, session_id: str, *bodies: bytes) -> None:
    """Send messages of one session in one batch, so that they are there on return."""
    sender = await client.sender(sent_to(queue), handle=90)
    payload = batch(*(message(body, session_id=session_id) for body in bodies))
    assert await sender.sent(payload, 0, message_format=BATCH_FORMAT) == Accepted()
    client.say(Detach(handle=90, closed=True))
    await sender.detached()


async def take(link: WireLink, count: int) -> list[Delivery]:
    """Give credit and take so many deliveries."""
    link.flow(link_credit=count)
    return [await link.receive() for _ in range(count)]


def bodies(deliveries: list[Delivery]) -> list[object]:
    return [see(each.payload).body for each in deliveries]


def granted(link: WireLink) -> object:
    """Return the session that the broker says it gave."""
    source = link.answer.source
    assert isinstance(source, Source)
    assert source.filter is not None
    return source.filter[SESSION_FILTER]


async def refusal(link: WireLink) -> tuple[str, str]:
    """Return condition and text of a refused link."""
    assert link.answer.source is None
    return await ended(link)


async def ended(link: WireLink) -> tuple[str, str]:
    """Return condition and text with which the broker detached a link."""
    detach = await link.detached()
    assert detach.error is not None
    return detach.error.condition, str(detach.error.description)
