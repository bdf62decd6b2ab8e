"""A broker inside the test's own loop: real stores, real links, virtual time if wanted."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from bendybus.assemble import StoreDrills
from bendybus.broker.authenticate import Authentication
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.forward import Forwarder
from bendybus.broker.hosts import Hosts
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.sweep import Sweep
from bendybus.content.rule_view import WireContentReader
from bendybus.doors.door import Door
from bendybus.http.access_rules import access_rule_routes
from bendybus.http.app import create_app
from bendybus.http.authorization import Authorization
from bendybus.http.front import Front, Upgrade
from bendybus.http.guard import Guard
from bendybus.http.management import management_routes
from bendybus.http.metrics import Metrics, metrics_routes
from bendybus.http.namespaces import namespace_routes
from bendybus.http.readers import reader_routes
from bendybus.http.rest import Rest
from bendybus.http.serving import HttpServer, serve_http
from bendybus.http.store_moves import StoreMoves, store_move_routes
from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import Queue, Topic
from bendybus.model.tier import Tier
from bendybus.server.listener import AmqpListener, listen
from bendybus.store.port import Store
from bendybus.store.sql.lane import Lane
from bendybus.store.sqlite.store import SqliteStore

ROOT_RULE: Final = AccessRule(
    "RootManageSharedAccessKey", "SAS_KEY_VALUE", frozenset({Right.MANAGE})
)


class StartedStore(Store, Protocol):
    """A store of any kind, with what starts and ends it, and the lane that does its work."""

    _lane: Lane[Any]

    async def start(self) -> None:
        """Open what it lies in."""
        ...

    async def close(self) -> None:
        """Finish what waits, and let go of it."""
        ...


@dataclass(slots=True)
class LocalBroker:
    """The parts of a running broker. Nothing is swept or forwarded unless the test says so."""

    stores: Sequence[StartedStore]
    namespaces: Namespaces
    sweep: Sweep
    forwarder: Forwarder
    clock: Clock

    @property
    def catalog(self) -> Catalog:
        """The entities of the default namespace."""
        return self.namespaces.default

    def queue(self, name: str) -> ServedQueue:
        """Return a queue that was declared."""
        return self.catalog.queue(name)


@asynccontextmanager
async def local_broker(
    folder: Path,
    entities: Sequence[Queue | Topic],
    clock: Clock,
    *,
    stores: int = 16,
    names: Sequence[str] = ("sbemulatorns",),
    tier: Tier = Tier(),  # noqa: B008 - it is frozen
    make_store: Callable[[int, Path], StartedStore] = SqliteStore,
) -> AsyncIterator[LocalBroker]:
    """Open the stores in the folder and serve the entities; closing leaves the files.

    They are those of the default namespace, the first of the names.
    """
    opened = [make_store(number, folder / f"store-{number:02}.db") for number in range(stores)]
    for store in opened:
        await store.start()
    try:
        namespaces = Namespaces(opened, WireContentReader())
        for name in names:
            namespaces.add(name, tier=tier)
        await namespaces.load()
        await namespaces.default.declare(entities, now=clock.now())
        yield LocalBroker(
            opened,
            namespaces,
            Sweep(namespaces.holdings, clock),
            Forwarder(namespaces, clock),
            clock,
        )
    finally:
        for store in opened:
            await store.close()


@asynccontextmanager
async def forwarding(broker: LocalBroker) -> AsyncIterator[None]:
    """Let messages be forwarded while the block runs."""
    tasks = [
        asyncio.create_task(broker.forwarder.run()),
        # Looks where messages wait that nobody took on, because nobody looked after the store.
        asyncio.create_task(broker.namespaces.hints.run()),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def hosts_of(broker: LocalBroker) -> Hosts:
    """Return all namespaces of a broker, as clients find them."""
    return Hosts(broker.namespaces, lambda catalog: Authentication(catalog, broker.clock))


@asynccontextmanager
async def listening(
    broker: LocalBroker,
    rules: tuple[AccessRule, ...] = (ROOT_RULE,),
    tls: Callable[[], ssl.SSLContext] | None = None,
) -> AsyncIterator[AmqpListener]:
    """Let clients connect to it on a free port of this machine."""
    broker.catalog.access.rules = rules
    doors = [Door("amqp", "127.0.0.1", 0, tls)]
    listener = await listen(doors, hosts=hosts_of(broker), clock=broker.clock)
    try:
        yield listener
    finally:
        await listener.close()


@asynccontextmanager
async def serving_http(
    broker: LocalBroker,
    rules: tuple[AccessRule, ...] = (ROOT_RULE,),
    guard: Guard | None = None,
    upgrade: Upgrade | None = None,
    moves: StoreMoves | None = None,
) -> AsyncIterator[HttpServer]:
    """Let clients call it over HTTP on a free port of this machine."""
    broker.catalog.access.rules = rules
    authentication = Authentication(broker.catalog, broker.clock)
    authorization = Authorization(authentication)

    def now() -> datetime:
        return datetime.fromtimestamp(broker.clock.now() / 1000, UTC)

    app = create_app(
        namespace=broker.catalog.namespace,
        authentication=authentication,
        drills=StoreDrills(broker.stores),
        is_started=lambda: True,
        now=now,
        routes=[
            *metrics_routes(Metrics(broker.namespaces.holdings, broker.clock), None),
            *namespace_routes(broker.namespaces, authorization, broker.clock),
            *access_rule_routes(broker.catalog, authorization, broker.clock),
            *reader_routes(broker.catalog, authorization, broker.clock),
            *(store_move_routes(moves, authorization) if moves is not None else ()),
            *management_routes(broker.catalog, authorization, broker.clock),
        ],
    )
    rest = Rest(broker.catalog, authentication, broker.clock)
    front = Front(broker.catalog.namespace, rest, app, now, upgrade)
    server = await serve_http(front, [Door("http", "127.0.0.1", 0)], guard=guard)
    try:
        yield server
    finally:
        await server.close()
