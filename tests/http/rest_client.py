"""A caller of REST messaging, and entities of every kind for it to call."""

import asyncio
import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import httpx

from bendybus.model.access import AccessRule, Right, make_sas
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.settings import DEFAULT_RULE_NAME, DEVELOPMENT_KEY
from bendybus.testing.clock import NOON

RULES: Final = (
    AccessRule("Root", "root-key", frozenset({Right.MANAGE})),
    AccessRule("Sender", "send-key", frozenset({Right.SEND})),
    AccessRule("Listener", "listen-key", frozenset({Right.LISTEN})),
)
ENTITIES: Final = (
    Queue("plain"),
    Queue("wide/parts", QueueProperties(enable_partitioning=True)),
    Topic("news", subscriptions=(Subscription("all"),)),
    Topic("wide/news", TopicProperties(enable_partitioning=True), (Subscription("all"),)),
    Queue("sessions", QueueProperties(requires_session=True)),
    Queue("distinct", QueueProperties(requires_duplicate_detection=True, enable_partitioning=True)),
)
# Where to send, and where what was sent is received.
KINDS: Final = {
    "queue": ("plain", "plain"),
    "partitioned queue": ("wide%2Fparts", "wide/parts"),
    "subscription": ("news", "news/Subscriptions/all"),
    "partitioned subscription": ("wide/news", "wide%2Fnews/subscriptions/ALL"),
}


def token(rule: str = "Root", key: str = "root-key", resource: str = "http://localhost/") -> str:
    """Sign for a while from the beginning of virtual time."""
    expires_at = datetime.fromtimestamp(NOON / 1000, UTC) + timedelta(days=1)
    return make_sas(resource, rule, key, expires_at)


class RestClient:
    """Speaks for one key, over connections that are kept."""

    def __init__(self, port: int, authorization: str | None = None) -> None:
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30
        )
        self.authorization = authorization or token()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        headers: dict[str, str] | None = None,
        broker: dict[str, Any] | None = None,
    ) -> httpx.Response:
        """Make one request."""
        sent = {"Authorization": self.authorization, **(headers or {})}
        if broker is not None:
            sent["BrokerProperties"] = json.dumps(broker)
        encoded = [(name.encode(), value.encode()) for name, value in sent.items()]
        return await self.http.request(method, path, content=content, headers=encoded)

    async def send(
        self,
        entity: str,
        content: bytes = b"",
        headers: dict[str, str] | None = None,
        broker: dict[str, Any] | None = None,
    ) -> None:
        """Send a message."""
        answer = await self.call("POST", f"/{entity}/messages", content, headers, broker)
        assert (answer.status_code, answer.content) == (201, b""), answer.text

    async def lock(self, entity: str, seconds: float = 0) -> httpx.Response:
        """Receive under lock."""
        return await self.call("POST", f"/{entity}/messages/head?timeout={seconds}")

    async def take(self, entity: str, seconds: float = 0) -> httpx.Response:
        """Receive for good."""
        return await self.call("DELETE", f"/{entity}/messages/head?timeout={seconds}")


def properties_of(answer: httpx.Response) -> dict[str, Any]:
    """Return what the broker says of a received message."""
    properties: dict[str, Any] = json.loads(answer.headers["BrokerProperties"])
    return properties


async def talk(port: int, data: bytes, *, ends: bool = False) -> bytes:
    """Send bytes, and return all that comes until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        if ends:
            writer.write_eof()
        return await asyncio.wait_for(reader.read(), timeout=20)
    finally:
        writer.close()


def say_and_hang_up(port: int, data: bytes) -> None:
    """Send bytes and hang up before the server can have seen them."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(data)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that nobody announces; not for ever."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nobody announces it
            await asyncio.sleep(0.001)


def live_token() -> str:
    """Sign with the development key, for a broker that runs in real time."""
    expires_at = datetime.now(UTC) + timedelta(hours=1)
    return make_sas("http://localhost/", DEFAULT_RULE_NAME, DEVELOPMENT_KEY, expires_at)
