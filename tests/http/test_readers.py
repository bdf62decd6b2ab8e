"""Readers over HTTP: who may see and release them, and what is refused."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from bendybus.broker.open_reader import open_reader
from bendybus.broker.reserve import ReserveWish, reserve
from bendybus.broker.send import send
from bendybus.http.metrics import FRESH_MS
from bendybus.model.access import AccessRule, Right, make_sas
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker, serving_http
from tests.http.test_metrics import Figures

KEY = "a-key"
QUEUES = (
    Queue("orders"),
    Queue("parts", QueueProperties(enable_partitioning=True)),
)
MANAGER = AccessRule("manager", KEY, frozenset({Right.MANAGE}))
LISTENER = AccessRule("listener", KEY, frozenset({Right.LISTEN}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, QUEUES, clock, stores=2) as broker:
        for name in ("orders", "parts"):
            queue = broker.queue(name)
            await send(queue, [Message(b"x")] * 5, FragmentIndex(0), clock)
            opened = await open_reader(queue.main, "capture", None, clock)
            wish = ReserveWish(reader="capture", token=opened.token, messages_max=3)
            await reserve(queue.main, wish, clock)
        yield broker


@pytest.fixture
async def http(broker: LocalBroker) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving_http(broker, (MANAGER, LISTENER)) as server,
        httpx.AsyncClient(base_url=f"http://localhost:{server.port}") as client,
    ):
        yield client


def signed(rule: str = "manager", resource: str = "") -> dict[str, str]:
    moment = datetime.fromtimestamp(NOON / 1000, UTC) + timedelta(hours=1)
    return {"Authorization": make_sas(f"http://localhost/{resource}", rule, KEY, moment)}


async def test_readers_are_told_with_their_places(
    http: httpx.AsyncClient, clock: ManualClock
) -> None:
    clock.advance(120)
    answer = await http.get("/$readers", headers=signed())
    assert answer.status_code == 200
    [orders, parts] = answer.json()
    assert orders == {
        "address": "orders",
        "reader": "capture",
        "isActive": False,
        "activeAt": "2027-01-15T08:00:00+00:00",
        "openedAt": "2027-01-15T08:00:00+00:00",
        "oldestAt": "2027-01-15T08:00:00+00:00",
        "reservedMessages": 3,
        "reservedBytes": orders["reservedBytes"],
        "lag": 2,
        "fragments": {"0": {"position": 1, "committed": 0, "reservedMessages": 3, "lag": 2}},
    }
    assert len(parts["fragments"]) == 16


async def test_only_managers_see_and_release_readers(http: httpx.AsyncClient) -> None:
    wish = {"address": "orders", "reader": "capture"}
    assert (await http.get("/$readers")).status_code == 401
    assert (await http.get("/$readers", headers=signed("listener"))).status_code == 401
    refused = await http.post("/$readers/release", json=wish, headers=signed("listener"))
    assert refused.status_code == 401
    assert len((await http.get("/$readers", headers=signed())).json()) == 2
    released = await http.post("/$readers/release", json=wish, headers=signed())
    assert released.json() == {"messages": 3, "skipped": []}
    assert (await http.post("/$readers/release", json=wish, headers=signed())).status_code == 410


async def test_with_a_store_away_it_is_named_or_left_out(
    http: httpx.AsyncClient, broker: LocalBroker
) -> None:
    await broker.stores[1].take_offline("drill")
    wish = {"address": "parts", "reader": "capture"}
    refused = await http.post("/$readers/release", json=wish, headers=signed())
    assert refused.status_code == 503
    assert "store 1" in refused.text
    freed = await http.post(
        "/$readers/release", json={**wish, "skipOffline": True}, headers=signed()
    )
    assert len(freed.json()["skipped"]) == 8


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"address": "orders"}',
        b'{"reader": "capture"}',
        b'{"address": 3, "reader": "capture"}',
        b'{"address": "orders", "reader": "capture", "skipOffline": 1}',
    ],
)
async def test_what_makes_no_sense_is_refused(http: httpx.AsyncClient, content: bytes) -> None:
    answer = await http.post("/$readers/release", content=content, headers=signed())
    assert answer.status_code == 400
    assert answer.headers["x-bendybus-error"] == "argument-invalid"


async def test_metrics_tell_of_readers(http: httpx.AsyncClient, clock: ManualClock) -> None:
    clock.advance(FRESH_MS / 1000 + 90)
    figures = Figures((await http.get("/metrics")).text)
    for entity in ("orders", "parts"):
        assert figures.of("messages_reserved", entity=entity, reader="capture") == 3
        assert figures.of("reader_lag_messages", entity=entity, reader="capture") == 2
        assert figures.of("messages", entity=entity, state="active") == 5
    age = figures.of("oldest_reservation_age_seconds", entity="orders", fragment="0")
    assert age == figures.of("reader_idle_seconds", entity="orders", fragment="0")
    assert age > 90
