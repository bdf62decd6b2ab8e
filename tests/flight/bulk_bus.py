"""A broker in the test's own loop with its bulk door open, and real clients of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
from pyarrow import flight

from bendybus.broker.clock import SystemClock
from bendybus.broker.send import group_by_fragment, send
from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place
from bendybus.client.endpoint import utc_now
from bendybus.content.plain_message import PlainMessage, encode_plain, read_plain
from bendybus.flight.calls import Calls
from bendybus.flight.door import OpenBulkDoor
from bendybus.model.access import AccessRule, make_sas
from bendybus.model.connection_string import ConnectionString
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.testing.bulk_door import serving_flight
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import ROOT_RULE, LocalBroker, local_broker

PATIENCE_SECONDS = 20
P = ParamSpec("P")
T = TypeVar("T")

ENTITIES = (
    Queue("orders"),
    Queue("parts", QueueProperties(enable_partitioning=True)),
    Queue("visits", QueueProperties(enable_partitioning=True, requires_session=True)),
    Topic("news", TopicProperties(), (Subscription("all"),)),
    Topic("feed", TopicProperties(enable_partitioning=True), (Subscription("all"),)),
)
# A queue and a subscription, conventional and partitioned.
PLACES = (Place("orders"), Place("parts"), Place("news", "all"), Place("feed", "all"))


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do what blocks beside the loop, which has to go on."""
    return await asyncio.to_thread(work, *args, **kwargs)


@dataclass(slots=True)
class BulkBus:
    """The broker, its door, and whoever comes through it."""

    broker: LocalBroker
    door: OpenBulkDoor
    clock: ManualClock
    clients: list[BulkClient] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        """Where the door is."""
        return f"grpc://127.0.0.1:{self.door.ports['flight']}"

    def client(self, rule: AccessRule = ROOT_RULE, *, patience_seconds: float = 0) -> BulkClient:
        """Make a client that holds the key of a rule, and does not try again."""
        text = ConnectionString(
            host="localhost",
            rule_name=rule.name,
            key=rule.primary_key,
            use_development_emulator=True,
        ).to_text()
        client = BulkClient(text, self.endpoint, patience_seconds=patience_seconds)
        self.clients.append(client)
        return client

    async def send(self, entity: str, messages: Sequence[PlainMessage]) -> None:
        """Send messages as clients do."""
        queue = self.broker.queue(entity)
        read = [read_plain(each, encode_plain(each), is_id_wanted=False) for each in messages]
        for fragment, some in group_by_fragment(queue, read).items():
            await send(queue, [read[at] for at in some], fragment, self.clock)

    async def rows(self, place: Place, **wish: Any) -> list[dict[str, Any]]:
        """Read all rows."""
        return await aside(lambda: rows_of(self.client().read(place, **wish)))


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def rows_of(batches: Any) -> list[dict[str, Any]]:
    """Return the rows of batches as dictionaries."""
    return [row for batch in batches for row in batch.to_pylist()]


def bodies_of(rows: Sequence[dict[str, Any]]) -> list[bytes]:
    """Return the bodies of rows."""
    return [row["body"] for row in rows]


def plain(bodies: Sequence[bytes], **fields: Any) -> list[PlainMessage]:
    """Make messages."""
    return [PlainMessage(body=body, **fields) for body in bodies]


def numbered(count: int, size: int = 0) -> list[bytes]:
    """Make bodies that differ."""
    return [b"%d" % number + b"." * size for number in range(count)]


class BareClient:
    """Sends whatever bytes a test likes, signed by a key."""

    def __init__(self, endpoint: str, rule: AccessRule = ROOT_RULE, entity: str = "") -> None:
        assert rule.primary_key is not None
        token = make_sas(
            f"sb://localhost/{entity}", rule.name, rule.primary_key, utc_now() + timedelta(hours=1)
        )
        self.headers = [(b"authorization", token.encode())]
        self.client = flight.FlightClient(endpoint)

    def act(self, action: str, body: bytes) -> dict[str, Any]:
        """Ask for an action."""
        options = flight.FlightCallOptions(timeout=20, headers=self.headers)
        [answer] = self.client.do_action(flight.Action(action, body), options)
        told: dict[str, Any] = json.loads(answer.body.to_pybytes())
        return told

    def put(self, command: bytes, rows: pa.RecordBatch) -> dict[str, Any]:
        """Write rows."""
        options = flight.FlightCallOptions(timeout=20, headers=self.headers)
        descriptor = flight.FlightDescriptor.for_command(command)
        sink, answers = self.client.do_put(descriptor, rows.schema, options)
        with sink:
            sink.write_batch(rows)
            sink.done_writing()
            told: dict[str, Any] = json.loads(answers.read().to_pybytes())
        return told

    def get(self, ticket: bytes) -> pa.Table:
        """Read what a ticket names."""
        options = flight.FlightCallOptions(timeout=20, headers=self.headers)
        return self.client.do_get(flight.Ticket(ticket), options).read_all()


@asynccontextmanager
async def bulk_bus(
    folder: Path,
    *,
    entities: Sequence[Queue | Topic] = ENTITIES,
    rules: tuple[AccessRule, ...] = (ROOT_RULE,),
    calls: Calls | None = None,
    stores: int = 4,
) -> AsyncIterator[BulkBus]:
    """Serve entities in bulk."""
    clock = ManualClock(SystemClock().now())
    async with (
        local_broker(folder, entities, clock, stores=stores) as broker,
        serving_flight(broker, rules, calls) as door,
    ):
        bus = BulkBus(broker, door, clock)
        try:
            yield bus
        finally:
            for client in bus.clients:
                client.close()
