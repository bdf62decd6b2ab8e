"""The description is what is served, and requests made by it are answered as it says."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from bendybus.assemble.moves import StoreMoves
from bendybus.http.openapi import document
from bendybus.http.rest_path import parse_rest_path
from bendybus.model.namespace import Namespace
from bendybus.settings import Choices, settle
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker, serving_http
from tests.http.rest_client import ENTITIES, RULES, token
from tests.http.store_shelf import StoreShelf
from tests.http.test_app import app_with

METHODS: Final = ("get", "put", "post", "patch", "delete")
NAMES: Final = ["plain", "wide%2Fparts", "news", "all", "sessions", "distinct", "nothing"]
EXAMPLES_IN_SHORT: Final = 60


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert method in METHODS
            yield method.upper(), path, operation


OPERATIONS: Final = list(operations())


def is_about_messages(path: str) -> bool:
    return "/messages" in path


def test_everything_but_management_is_described() -> None:
    served = {
        (method, re.sub(r":\w+}", "}", route.path))
        for route in app_with(StoreShelf(1)).routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD" and not is_management(route.path)
    }
    described = {(method, path) for method, path, _ in OPERATIONS if not is_about_messages(path)}
    assert served == described


def is_management(path: str) -> bool:
    """What docs/management.md describes instead."""
    return path.startswith(("/$Resources", "/$namespaceinfo", "/{path:path}"))


def test_everything_described_of_messages_is_served() -> None:
    token_text = "/" + "0" * 32
    for method, path, _ in OPERATIONS:
        if is_about_messages(path):
            example = path.replace("/{lockToken}", token_text).replace("{", "").replace("}", "")
            assert parse_rest_path(method, example) is not None, (method, path)


def test_every_reference_leads_somewhere() -> None:
    described = document()
    for reference in re.findall(r'"#/([^"]+)"', json.dumps(described)):
        found: Any = described
        for step in reference.split("/"):
            found = found[step]
        assert found


@dataclass(frozen=True, slots=True)
class Drawn:
    """A request, and the statuses that its description knows."""

    method: str
    target: str
    headers: dict[bytes, bytes]
    body: bytes
    statuses: frozenset[int]

    def is_described_by(self, status: int) -> bool:
        return status in self.statuses


@st.composite
def requests(draw: st.DrawFn) -> Drawn:
    """Draw a request that the description allows, or one that is wrong in a few places."""
    method, path, operation = draw(st.sampled_from(OPERATIONS))
    query: dict[str, str] = {}
    headers: dict[bytes, bytes] = {}
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        value = draw(values(name))
        match parameter["in"]:
            case "path":
                path = path.replace(f"{{{name}}}", value)
            case "query" if draw(st.booleans()):
                query[name] = value
            case "header" if draw(st.booleans()):
                headers[name.encode()] = value.encode("latin-1", "replace")
    if "timeout" in json.dumps(operation):
        query.setdefault("timeout", "0")
    content = operation.get("requestBody", {}).get("content", {})
    body = b""
    if content:
        kind = draw(st.sampled_from([*content, "text/plain"]))
        headers[b"Content-Type"] = kind.encode()
        objects = batches() | access_wishes() | move_wishes()
        body = draw(st.binary(max_size=200) | objects.map(lambda each: json.dumps(each).encode()))
    target = path + ("?" + "&".join(f"{name}={value}" for name, value in query.items()))
    return Drawn(method, target, headers, body, frozenset(map(int, operation["responses"])))


def values(name: str) -> st.SearchStrategy[str]:
    odd = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=8)
    known: dict[str, st.SearchStrategy[str]] = {
        "id": st.sampled_from(["1", "a%2Fb", "x"]),
        "lockToken": st.uuids().map(str),
        "number": st.integers(0, 9).map(str),
        "namespace": st.sampled_from(["team-blue", "TEAM-blue", "ns", "sbemulatorns"]),
        "withEntities": st.sampled_from(["true", "false", "x"]),
        "timeout": st.sampled_from(["0", "0.01", "-1", "x", "1e400"]),
        "api-version": st.sampled_from(["2013-08", "2021-05", "new", ""]),
        "BrokerProperties": broker_properties().map(json.dumps),
    }
    quoted = odd.map(lambda text: "".join(f"%{ord(each):02X}" for each in text))
    return known.get(name, st.sampled_from(NAMES)) | quoted


def broker_properties() -> st.SearchStrategy[Any]:
    names = [*document()["components"]["schemas"]["BrokerProperties"]["properties"], "Odd"]
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=140)
    return st.dictionaries(st.sampled_from(names), scalars, max_size=4) | scalars


def access_wishes() -> st.SearchStrategy[Any]:
    texts = st.none() | st.text(max_size=20) | st.sampled_from(["a-key-of-ones-own", "a;b"])
    return st.fixed_dictionaries(
        {},
        optional={
            "rights": st.lists(st.sampled_from(["Send", "Listen", "Manage", "Odd"])) | st.none(),
            "primaryKey": texts,
            "secondaryKey": texts | st.integers(),
            "keyType": st.sampled_from(["PrimaryKey", "SecondaryKey", "", None]),
            "key": texts | st.booleans(),
            "sku": st.sampled_from(["Basic", "premium", "", None]),
            "premiumPartitioning": st.sampled_from(["always", "namespace", 1]),
            "premiumMessagingPartitions": st.sampled_from([1, 2, 3, "4", True]),
        },
    )


def move_wishes() -> st.SearchStrategy[Any]:
    # Nobody is at that port: such a move is begun, and fails.
    places = ["postgresql://user@127.0.0.1:1/none", "postgresql://127.0.0.1:1/other", "none"]
    return st.fixed_dictionaries({"url": st.sampled_from(places) | st.none() | st.integers()})


def batches() -> st.SearchStrategy[Any]:
    entry = st.fixed_dictionaries(
        {"Body": st.text(max_size=20)},
        optional={
            "IsBodyBase64": st.booleans(),
            "BrokerProperties": broker_properties(),
            "UserProperties": st.dictionaries(st.text(max_size=5), st.text() | st.integers()),
            "Odd": st.none(),
        },
    )
    return st.lists(entry, max_size=3)


@asynccontextmanager
async def moving(broker: LocalBroker, folder: Path) -> AsyncIterator[StoreMoves]:
    moves = StoreMoves(settle([Choices(data=folder)], Namespace()), broker.stores)
    yield moves
    await moves.close()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        local_broker(tmp_path, ENTITIES, ManualClock(), stores=2) as broker,
        moving(broker, tmp_path) as moves,
        serving_http(broker, RULES, moves=moves) as server,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{server.port}",
            headers={"Authorization": token()},
            trust_env=False,
        ) as client,
    ):
        yield client


async def check(client: httpx.AsyncClient, drawn: Drawn) -> None:
    """Make a request; the answer must be one that the description knows."""
    answer = await client.request(
        drawn.method, drawn.target, headers=drawn.headers, content=drawn.body
    )
    if drawn.is_described_by(answer.status_code):
        return
    # A name that holds a trick, or makes the path another one.
    assert answer.status_code in (400, 404, 405), answer.text
    assert answer.headers["content-type"] == "application/xml; charset=utf-8"
    assert re.fullmatch(r"<Error><Code>\d+</Code><Detail>SubCode=.*</Error>", answer.text)


# One broker for all examples: it has to stand what came before, too.
lasting = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@settings(lasting, max_examples=EXAMPLES_IN_SHORT)
@given(drawn=requests())
async def test_whatever_is_asked_is_answered_as_described(
    client: httpx.AsyncClient, drawn: Drawn
) -> None:
    await check(client, drawn)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@settings(lasting, max_examples=5_000)
@given(drawn=requests())
async def test_whatever_is_asked_is_answered_as_described_at_length(
    client: httpx.AsyncClient, drawn: Drawn
) -> None:
    await check(client, drawn)
