"""Who is led to a desk before another front end's namespace is known there gets to it at last."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from bendybus.assemble import StoreDrills
from bendybus.assemble.desks import Desks
from bendybus.broker.catalog import Catalog
from bendybus.broker.create import create
from bendybus.broker.create_namespace import create_namespace
from bendybus.doors.door import Door
from bendybus.http.front import Front
from bendybus.http.host_desks import HostDesks
from bendybus.http.serving import serve_http
from bendybus.model.access import make_sas
from bendybus.model.entity import Queue
from bendybus.model.tier import Tier
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import LocalBroker, hosts_of, local_broker

HOST = "team-blue.example"
ENDS_AT = datetime.fromtimestamp(NOON / 1000, UTC) + timedelta(minutes=5)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, [Queue("orders")], ManualClock(), stores=2) as broker:
        yield broker


@asynccontextmanager
async def served(broker: LocalBroker, *, is_shared: bool) -> AsyncIterator[httpx.AsyncClient]:
    """Serve HTTP so that the first look finds the default namespace, whatever the host."""
    drills = StoreDrills(broker.stores)
    desks = Desks(hosts_of(broker), drills, broker.clock, lambda *_: None, ())
    looks: list[str | None] = []

    def find(host: str | None) -> Front:
        looks.append(host)
        return desks.of(None if len(looks) == 1 else host)

    desk = HostDesks(desks.of(None), find, lambda: is_shared)
    server = await serve_http(desk, [Door("http", "127.0.0.1", 0)])
    url = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        yield client
    await server.close()


async def created(broker: LocalBroker) -> Catalog:
    now = broker.clock.now()
    made = await create_namespace(broker.namespaces, "team-blue", Tier(), now=now)
    await create(made, Queue("orders"), now=now)
    return made


def headers_of(catalog: Catalog) -> dict[str, str]:
    [root] = catalog.access.rules
    return {
        "Host": HOST,
        "Authorization": make_sas(f"http://{HOST}/", root.name, root.keys[0], ENDS_AT),
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/orders/messages", 201), ("GET", "/$namespaceinfo", 200)],
)
async def test_a_key_that_is_not_known_here_is_tried_where_the_host_leads_by_then(
    broker: LocalBroker, method: str, path: str, status: int
) -> None:
    headers = headers_of(await created(broker))
    async with served(broker, is_shared=True) as client:
        answer = await client.request(method, path, headers=headers, content=b"once")
        assert answer.status_code == status, answer.text
    async with served(broker, is_shared=False) as client:
        answer = await client.request(method, path, headers=headers, content=b"never")
        assert answer.status_code == 401, "where nobody else creates, nobody looks again"


async def test_a_key_that_nobody_knows_is_refused(broker: LocalBroker) -> None:
    headers = headers_of(await created(broker))
    headers["Authorization"] = headers["Authorization"].replace("sig=", "sig=x")
    async with served(broker, is_shared=True) as client:
        for path in ("/orders/messages", "/$authorizationRules/none/listKeys"):
            assert (await client.post(path, headers=headers)).status_code == 401
