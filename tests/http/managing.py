"""A broker in the loop whose management API is called as a client would, without a network."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from bendybus.atom.entries import Entry, Feed, read_entry, read_feed, write_request_entry
from bendybus.atom.properties import Kind, read_properties, write_properties
from bendybus.atom.xml_reading import Element
from bendybus.broker.authenticate import Authentication
from bendybus.http.access_rules import access_rule_routes
from bendybus.http.app import create_app
from bendybus.http.authorization import Authorization
from bendybus.http.management import management_routes
from bendybus.model.entity import Queue, Topic
from bendybus.model.tier import Tier
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.http.store_shelf import RULES, StoreShelf, authorized

VERSION: Final = "api-version=2021-05"
IF_ANY: Final = {"If-Match": "*"}


@dataclass(slots=True)
class Administrator:
    """Calls the management API of a broker, as the holder of the namespace's key."""

    broker: LocalBroker
    clock: ManualClock
    app: Starlette
    http: httpx.AsyncClient

    async def call(
        self, method: str, path: str, body: str | bytes = b"", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send a request with the newest version that all clients know, unless it names one."""
        now = datetime.fromtimestamp(self.clock.now() / 1000, UTC)
        query = "" if "api-version" in path else f"{'&' if '?' in path else '?'}{VERSION}"
        return await self.http.request(
            method,
            f"{path}{query}",
            content=body,
            headers={**authorized(now=now), **(headers or {})},
        )

    async def call_raw(
        self,
        method: str,
        path: str,
        body: str | bytes = b"",
        headers: dict[str, str] | None = None,
        query: str = VERSION,
    ) -> httpx.Response:
        """Send a path as it is, which a client's library would tidy up first."""
        now = datetime.fromtimestamp(self.clock.now() / 1000, UTC)
        sent = {**authorized(now=now), **(headers or {})}
        transport = _UntidyTransport(self.app, path)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.request(method, f"/?{query}", content=body, headers=sent)

    async def create(self, path: str, kind: Kind, **properties: Any) -> httpx.Response:
        """Create an entity from properties by the model's names."""
        return await self.call("PUT", path, request_body(kind, **properties))

    async def update(self, path: str, kind: Kind, **properties: Any) -> httpx.Response:
        """Change the given properties of an entity."""
        return await self.call("PUT", path, request_body(kind, **properties), IF_ANY)

    async def entry(self, path: str) -> Entry:
        """Get an entry."""
        answer = await self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return read_entry(answer.content)

    async def feed(self, path: str) -> Feed:
        """Get a page."""
        answer = await self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return read_feed(answer.content)

    async def properties(self, path: str) -> dict[str, Any]:
        """Get what an entity is, by the model's names."""
        entry = await self.entry(path)
        return read_properties(entry.description, entry.kind)


class _UntidyTransport(httpx.ASGITransport):
    """Hands an application a path that no client library would send."""

    def __init__(self, app: Starlette, path: str) -> None:
        super().__init__(self._with_path, raise_app_exceptions=False)
        self._app = app
        self._path = path

    async def _with_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        decoded = unquote(self._path)
        scope = {**scope, "path": decoded, "raw_path": self._path.encode("ascii")}
        await self._app(scope, receive, send)


@asynccontextmanager
async def managing(
    folder: Path,
    entities: Sequence[Queue | Topic] = (),
    *,
    stores: int = 4,
    tier: Tier = Tier(),  # noqa: B008 - it is frozen
) -> AsyncIterator[Administrator]:
    """Serve entities, and whatever the test makes; another namespace has the host `elsewhere`."""
    clock = ManualClock()
    async with local_broker(folder, entities, clock, stores=stores, tier=tier) as broker:
        broker.catalog.access.rules = RULES
        authentication = Authentication(broker.catalog, clock)
        authorization = Authorization(authentication)
        app = create_app(
            namespace="sbemulatorns",
            authentication=authentication,
            drills=StoreShelf(stores),
            is_started=lambda: True,
            now=lambda: datetime.fromtimestamp(clock.now() / 1000, UTC),
            routes=[
                *access_rule_routes(broker.catalog, authorization, clock),
                *management_routes(
                    broker.catalog, authorization, clock, lambda host: host.startswith("elsewhere")
                ),
            ],
        )
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield Administrator(broker, clock, app, http)


def request_body(kind: Kind, **properties: Any) -> str:
    """Write the body of a request as a client would."""
    return write_request_entry(kind, write_properties(kind, properties))


def raw_body(kind: Kind, content: str) -> str:
    """Write a body whose content is what no well-behaved client would send."""
    return write_request_entry(kind, content)


def subcode(answer: httpx.Response) -> str:
    """Return status and SubCode of a refusal."""
    found = answer.text.partition("SubCode=")[2][:5]
    return f"{answer.status_code}/{found}"


def text_of(description: Element, name: str) -> str:
    """Return the text of an element that must be there."""
    text = description.text_of(name)
    assert text is not None, f"{name} is not there"
    return text
