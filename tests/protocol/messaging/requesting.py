"""Requests to `$cbs` and `$management`, in the shapes of the various clients."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.model.access import AccessRule, make_sas
from bendybus.testing.clock import NOON
from bendybus.testing.local_broker import ROOT_RULE
from bendybus.testing.wire_client import WireClient, WireLink
from tests.protocol.messaging.sample_messages import Seen, see

_CORRELATION_ID = 5


@dataclass(slots=True)
class Answered:
    """A response, taken apart."""

    seen: Seen

    @property
    def correlation_id(self) -> Any:
        """Which request it answers."""
        return self.seen.properties[_CORRELATION_ID]

    @property
    def properties(self) -> dict[Any, Any]:
        """Status and description."""
        return self.seen.application_properties

    @property
    def status(self) -> int:
        """The status of a response of `$management`."""
        return int(self.properties["statusCode"])

    @property
    def body(self) -> Any:
        """The value of the response."""
        return self.seen.body


@dataclass(slots=True)
class Requests:
    """A link of requests and the link of their responses."""

    to_node: WireLink
    from_node: WireLink
    asked: int = 0

    async def ask(
        self, operation: str, body: object, *, message_id: object = None, **properties: object
    ) -> Answered:
        """Make a request without a reply-to and return the response."""
        self.asked += 1
        message_id = message_id or f"request-{self.asked}"
        payload = request(operation, body, message_id=message_id, **properties)
        self.to_node.send(payload, self.asked)
        return await self.answered()

    async def answered(self) -> Answered:
        """Take the next response."""
        delivery = await self.from_node.receive()
        return Answered(see(delivery.payload))


async def requests_to(
    client: WireClient, node: str, *, channel: int = 0, handle: int = 10
) -> Requests:
    """Attach both links to a node and give credit."""
    to_node = await client.sender(node, channel=channel, handle=handle)
    from_node = await client.receiver(node, channel=channel, handle=handle + 1)
    from_node.flow(link_credit=1000)
    return Requests(to_node, from_node)


def request(
    operation: str,
    body: object,
    *,
    message_id: object = "request",
    reply_to: object = None,
    **properties: object,
) -> bytes:
    """Encode a request."""
    fields = {"operation": operation} | {
        name.replace("_", "-"): value for name, value in properties.items()
    }
    return (
        encode_properties([message_id, None, None, None, reply_to])
        + encode_section(SectionCode.APPLICATION_PROPERTIES, fields)
        + encode_section(SectionCode.AMQP_VALUE, body)
    )


def token_for(
    resource: str, *, rule: AccessRule = ROOT_RULE, key: str | None = None, seconds: int = 3600
) -> str:
    """Sign a token that ends so many seconds after the clock's start."""
    ends_at = datetime.fromtimestamp(NOON / 1000 + seconds, UTC)
    return make_sas(resource, rule.name, key or rule.keys[0], ends_at)


async def put_token(
    requests: Requests, audience: str, token: object, **properties: object
) -> dict[Any, Any]:
    """Put a token and return the properties of the response."""
    requests.asked += 1
    payload = request(
        "put-token", token, message_id=f"token-{requests.asked}", name=audience, **properties
    )
    requests.to_node.send(payload, requests.asked)
    return (await requests.answered()).properties
