"""Runs a broker: stores, namespaces, what looks after them, and the doors, in that order."""

import asyncio
import ctypes
import gc
import os
import resource
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import Final, NamedTuple

from bendybus.assemble.data_folder import only_broker_on
from bendybus.assemble.desks import Desks, websockets_to
from bendybus.assemble.drills import StoreDrills
from bendybus.assemble.moves import StoreMoves
from bendybus.assemble.stores import Crew, open_stores
from bendybus.broker.anchored_clock import AnchoredClock, clock_of
from bendybus.broker.authenticate import Authentication
from bendybus.broker.bearer_tokens import BearerTokens
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock, SystemClock
from bendybus.broker.finish_staged import Finisher
from bendybus.broker.forward import Forwarder
from bendybus.broker.hosts import Hosts
from bendybus.broker.namespaces import Namespaces
from bendybus.broker.rate_limits import Rates
from bendybus.broker.removal import Removal
from bendybus.broker.sweep import Sweep
from bendybus.broker.traces import Traces
from bendybus.content.rule_view import WireContentReader
from bendybus.doors.arrivals import Arrivals
from bendybus.doors.chosen import ChosenDoors, chosen_doors, running_ports
from bendybus.doors.figures import FlightFigures
from bendybus.doors.tracing import tracing
from bendybus.http.authorization import Authorization
from bendybus.http.guard import Guard
from bendybus.http.host_desks import HostDesks
from bendybus.http.issuers import trusting
from bendybus.http.metrics import FIGURES, DoorFigures, Metrics, metrics_routes
from bendybus.http.namespaces import namespace_routes
from bendybus.http.serving import serve_http
from bendybus.http.store_moves import store_move_routes
from bendybus.model.transaction import TransactionLimits
from bendybus.server.listener import AmqpListener, listen
from bendybus.settings import RunningPorts, Settings
from bendybus.store.port import Store

# How long a thread may hold the interpreter while another waits for it. The default of 5 ms
# would let the event loop keep a finished commit waiting for longer than the commit took
# (decisions/0004).
SWITCH_SECONDS: Final = 0.0005
# How many new objects make the collector look for cycles among the young ones. Messages in flight
# are many and are freed without it; at the default of 700 it shows in every profile.
COLLECT_OBJECTS: Final = 50_000
HEAPS_MAX: Final = 2
_M_ARENA_MAX: Final = -8


class ServedFlight(NamedTuple):
    """The bulk door: its ports, and what goes through it; nothing where there is none."""

    ports: Mapping[str, int]
    figures: Callable[[], FlightFigures | None]


def door_figures(listener: AmqpListener, guard: Guard, flight: ServedFlight) -> DoorFigures:
    """Say what comes in by the doors."""
    connections = listener.connections
    return DoorFigures(
        amqp_connections=len(connections),
        amqp_blocked=sum(each.is_blocked for each in connections),
        amqp_links=sum(each.link_count for each in connections),
        http_connections=guard.connection_count,
        http_answers=guard.answers,
        flight=flight.figures(),
    )


async def run_broker(
    settings: Settings,
    announce: Callable[[RunningPorts], None],
    stop: asyncio.Event,
    arrivals: Arrivals | None = None,
    crew: Crew | None = None,
) -> None:
    """Serve until `stop` is set; `announce` is called once clients can connect.

    With `arrivals` and `crew` it is one of several workers, which share the stores, and another
    process has the data folder and the doors.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(COLLECT_OBJECTS)
    _allow_many_files()
    _share_heaps()
    doors = chosen_doors(settings, arrivals)
    is_alone = arrivals is None and not settings.places
    with (
        tracing(os.environ) as traces,
        only_broker_on(settings.data) if is_alone else nullcontext(),
    ):
        async with open_stores(settings, crew) as stores:
            # A worker that comes later has the time of those that are there.
            is_anchored = crew is None or bool(crew.at_servers)
            clock = await clock_of(stores) if is_anchored else SystemClock()
            namespaces = await _load(settings, stores, clock, traces)
            async with (
                _sweeping(namespaces, clock, doors) as sweeping,
                _authenticating(settings, namespaces, clock) as hosts,
                _serving_flight(doors, hosts, clock) as flight,
                _serving(settings, doors, namespaces, hosts, clock, flight, arrivals) as ports,
            ):
                # What is here now stays; the collector need not look at it again.
                gc.freeze()
                announce(ports)
                stopping = asyncio.create_task(stop.wait())
                await asyncio.wait({stopping, sweeping}, return_when=asyncio.FIRST_COMPLETED)
                stopping.cancel()
                if sweeping.done():
                    # Without it locks would never end: better no broker than half of one.
                    await sweeping


def _allow_many_files() -> None:
    """Take all the files that the system grants: thousands of clients need one each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems say "unlimited" and mean less.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _share_heaps() -> None:
    """Let all threads take memory from few heaps; by default glibc has eight for each processor.

    Each keeps what its threads once needed, which is much where batches of columns are made: 180 MB
    less after one read of 400,000 messages, and none of the ordinary work gets slower.
    """
    with suppress(OSError, AttributeError):  # elsewhere than on glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS_MAX)


async def _load(
    settings: Settings, stores: Sequence[Store], clock: Clock, traces: Traces | None
) -> Namespaces:
    """Serve what the stores hold, and what is configured beyond that."""
    namespaces = Namespaces(stores, WireContentReader())
    namespaces.holdings.traces = traces
    catalogs = [
        namespaces.add(chosen.namespace.name, tier=chosen.namespace.tier)
        for chosen in settings.namespaces
    ]
    await namespaces.load()
    for catalog, chosen in zip(catalogs, settings.namespaces, strict=True):
        await catalog.access.declare(chosen.access_rules, now=clock.now())
        await catalog.declare(chosen.namespace.entities, now=clock.now())
    return namespaces


@asynccontextmanager
async def _authenticating(
    settings: Settings, namespaces: Namespaces, clock: Clock
) -> AsyncIterator[Hosts]:
    """Know who clients are, in each namespace by its own keys and, if configured, issuer."""
    rates = Rates(settings.requests_per_second, settings.connection_requests_per_second)
    async with AsyncExitStack() as issuers:
        trusted: dict[Catalog, BearerTokens | None] = {}
        for catalog, chosen in zip(namespaces.configured, settings.namespaces, strict=True):
            trusted[catalog] = await issuers.enter_async_context(
                trusting(chosen.namespace.token_issuer, clock)
            )

        def authenticate(catalog: Catalog) -> Authentication:
            return Authentication(catalog, clock, trusted.get(catalog), rates)

        yield Hosts(namespaces, authenticate)


@asynccontextmanager
async def _serving_flight(
    doors: ChosenDoors, hosts: Hosts, clock: Clock
) -> AsyncIterator[ServedFlight]:
    """Serve messages in bulk, if the packages for that are installed; they are large."""
    if not doors.flight or find_spec("pyarrow") is None:
        yield ServedFlight({}, lambda: None)
        return
    from bendybus.flight.door import open_bulk_door

    door = await open_bulk_door(doors.flight, hosts=hosts, clock=clock, tls=doors.tls)
    watching = asyncio.create_task(door.watch(), name="flight")
    try:
        yield ServedFlight(door.ports, door.calls.figures)
    finally:
        watching.cancel()
        await door.close()


@asynccontextmanager
async def _serving(
    settings: Settings,
    doors: ChosenDoors,
    namespaces: Namespaces,
    hosts: Hosts,
    clock: Clock,
    flight: ServedFlight,
    arrivals: Arrivals | None,
) -> AsyncIterator[RunningPorts]:
    """Listen for AMQP and HTTP; say what is served in all."""
    listener = await listen(
        doors.amqp,
        hosts=hosts,
        clock=clock,
        transaction_limits=TransactionLimits(
            settings.transaction_messages, settings.transaction_seconds
        ),
        note_count=None if arrivals is None else arrivals.seat.note_open,
    )
    try:
        guard = Guard()
        metrics = Metrics(
            namespaces.holdings,
            clock,
            lambda: door_figures(listener, guard, flight),
            arrivals,
        )
        if arrivals is not None:
            arrivals.answer(FIGURES, lambda _: metrics.own())
        readers = None if settings.is_metrics_open else Authorization(hosts.default.authentication)
        figures = metrics_routes(metrics, readers)
        stores = namespaces.records.stores
        moves = StoreMoves(settings, stores, arrivals)
        managers = Authorization(hosts.default.authentication)
        own = [
            *figures,
            *store_move_routes(moves, managers),
            *namespace_routes(namespaces, managers, clock),
        ]
        drills = StoreDrills(stores, arrivals)
        desks = Desks(hosts, drills, clock, websockets_to(listener), own)
        desk = HostDesks(desks.of(None), desks.of, lambda: namespaces.records.is_shared)
        http = await serve_http(desk, doors.http, guard=guard)
        try:
            yield running_ports({**listener.ports, **http.ports, **flight.ports})
        finally:
            await http.close()
            await moves.close()
    finally:
        await listener.close()


@asynccontextmanager
async def _sweeping(
    namespaces: Namespaces, clock: Clock, doors: ChosenDoors
) -> AsyncIterator[asyncio.Task[None]]:
    """Deal with what is due, on its way or idle, and with new certificates, beside the traffic."""

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            # First: what may have arrived elsewhere is taken up before any of it can expire.
            tasks.create_task(Forwarder(namespaces, clock).run(), name="forward")
            tasks.create_task(Sweep(namespaces.holdings, clock).run(), name="sweep")
            tasks.create_task(Finisher(namespaces, clock).run(), name="staged")
            tasks.create_task(Removal(namespaces, clock).run(), name="removal")
            tasks.create_task(namespaces.keep_agreeing(), name="agreement")
            tasks.create_task(namespaces.hints.run(), name="hints")
            if isinstance(clock, AnchoredClock):
                stores = namespaces.holdings.stores
                tasks.create_task(clock.keep_anchored(stores), name="clock")
            if doors.tls is not None:
                tasks.create_task(doors.tls.watch(), name="certificate")

    task = asyncio.create_task(run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
