"""Health and store drills over HTTP, through the application itself."""

import logging
import re
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
from starlette.applications import Starlette

from bendybus.assemble.moves import StoreMoves
from bendybus.broker.rate_limits import Rates
from bendybus.http.access_rules import access_rule_routes
from bendybus.http.app import create_app
from bendybus.http.authorization import Authorization
from bendybus.http.metrics import Metrics, metrics_routes
from bendybus.http.namespaces import namespace_routes
from bendybus.http.readers import reader_routes
from bendybus.http.store_moves import store_move_routes
from bendybus.http.stores import StoreDrills
from bendybus.model.namespace import Namespace
from bendybus.model.store_status import StoreStatus
from bendybus.settings import Choices, settle
from bendybus.testing.clock import ManualClock
from tests.http.store_shelf import (
    ANY_RATE,
    NOON,
    StoreShelf,
    authentication,
    authorized,
    no_entities,
)

NO_MOVES = StoreMoves(settle([Choices()], Namespace()), [])


def app_with(
    drills: StoreDrills,
    is_started: Callable[[], bool] = lambda: True,
    rates: Rates = ANY_RATE,
) -> Starlette:
    checks = authentication(rates=rates)
    return create_app(
        namespace="ns",
        authentication=checks,
        drills=drills,
        is_started=is_started,
        now=lambda: NOON,
        routes=[
            *metrics_routes(Metrics(no_entities().holdings, ManualClock()), Authorization(checks)),
            *namespace_routes(no_entities(), Authorization(checks), ManualClock()),
            *access_rule_routes(no_entities().default, Authorization(checks), ManualClock()),
            *reader_routes(no_entities().default, Authorization(checks), ManualClock()),
            *store_move_routes(NO_MOVES, Authorization(checks)),
        ],
    )


def client_of(app: Starlette) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app_with(StoreShelf(3))) as client:
        yield client


async def test_health_is_told_in_the_emulators_words(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "healthy", "message": "Service is healthy."}


async def test_health_and_readiness_wait_for_the_start() -> None:
    state = {"started": False}
    async with client_of(app_with(StoreShelf(1), lambda: state["started"])) as client:
        for path in ("/health", "/ready"):
            answer = await client.get(path)
            assert answer.status_code == 503
            assert answer.json() == {"status": "unhealthy", "message": "Service is starting."}
        state["started"] = True
        for path in ("/health", "/ready"):
            assert (await client.get(path)).status_code == 200


@pytest.mark.spec("R1.2")
async def test_the_broker_is_ready_while_any_store_is_online(client: httpx.AsyncClient) -> None:
    for number in (0, 1):
        await client.post(f"/$stores/{number}/offline", headers=authorized())
    assert (await client.get("/ready")).status_code == 200
    await client.post("/$stores/2/offline", headers=authorized())
    answer = await client.get("/ready")
    assert (answer.status_code, answer.json()["message"]) == (503, "No messaging store is online.")
    assert (await client.get("/health")).status_code == 200


async def test_stores_are_listed_with_their_state(client: httpx.AsyncClient) -> None:
    await client.post("/$stores/1/offline", headers=authorized())
    answer = await client.get("/$stores", headers=authorized())
    assert answer.json()[1] == {
        "number": 1,
        "state": "offline",
        "reason": "taken offline",
        "path": "data/store-01.db",
        "bytes": 8192,
        "fragments": 2,
    }
    assert [store["state"] for store in answer.json()] == ["online", "offline", "online"]


async def test_a_store_goes_and_comes_back_and_repeating_is_harmless(
    client: httpx.AsyncClient,
) -> None:
    for verb, state in (("offline", "offline"), ("online", "online")):
        for _ in range(2):
            answer = await client.post(f"/$stores/2/{verb}", headers=authorized())
            assert answer.status_code == 204
        stores = (await client.get("/$stores", headers=authorized())).json()
        assert stores[2]["state"] == state


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/$stores"), ("POST", "/$stores/0/offline"), ("POST", "/$stores/0/online")],
)
@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({}, "MissingToken"),
        ({"Authorization": "Bearer x"}, "InvalidToken"),
        (authorized(key="guess"), "InvalidSignature"),
        (authorized(resource="http://localhost/orders"), "InvalidAudience"),
        (authorized("Sender", "send-key"), "'Manage' claim(s) are required"),
    ],
)
async def test_stores_are_for_those_who_may_manage(
    client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], text: str
) -> None:
    answer = await client.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "SharedAccessSignature"
    assert text in answer.text
    stores = (await client.get("/$stores", headers=authorized())).json()
    assert {store["state"] for store in stores} == {"online"}


async def test_an_error_has_the_body_that_the_official_clients_parse(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.post("/$stores/9/offline", headers=authorized())
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/xml; charset=utf-8"
    assert answer.headers["x-bendybus-error"] == "store-not-found"
    assert re.fullmatch(
        r"<Error><Code>404</Code><Detail>SubCode=40400\. There is no store 9; they are 0 to 2\."
        r" TrackingId:[0-9a-f-]{36}, SystemTracker:ns:/\$stores/9/offline,"
        r" Timestamp:2026-01-01T12:00:00</Detail></Error>",
        answer.text,
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/$stores/1", 404),
        ("POST", "/$stores/-1/offline", 404),
        ("POST", "/$stores/one/offline", 404),
        ("DELETE", "/health", 405),
        ("GET", "/$stores/1/offline", 405),
    ],
)
async def test_what_is_not_there_is_refused_in_the_same_form(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await client.request(method, path, headers=authorized())
    assert answer.status_code == status
    assert f"<Error><Code>{status}</Code><Detail>SubCode={status}00. " in answer.text


async def test_markup_in_a_request_does_not_become_markup_in_the_answer(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/<b>&", headers=authorized())
    assert "SystemTracker:ns:/&lt;b&gt;&amp;," in answer.text


class BrokenShelf(StoreShelf):
    """Fails in a way nobody foresaw."""

    def stores(self) -> list[StoreStatus]:
        raise RuntimeError("the secret cause")


async def test_a_defect_is_logged_and_not_shown_to_the_caller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client_of(app_with(BrokenShelf(1))) as client:
        with caplog.at_level(logging.ERROR):
            answer = await client.get("/$stores", headers=authorized())
    assert answer.status_code == 500
    assert answer.headers["x-bendybus-error"] == "internal-error"
    assert "secret" not in answer.text
    assert "the secret cause" in caplog.text


@pytest.mark.parametrize("rates", [Rates(namespace=2), Rates(connection=2), Rates(2, 5)])
async def test_more_requests_than_a_second_may_have_are_told_when_to_come_back(
    rates: Rates,
) -> None:
    async with client_of(app_with(StoreShelf(1), rates=rates)) as client:
        answers = [await client.get("/$stores", headers=authorized()) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].headers["retry-after"] == "1"
    assert "SubCode=50004. Too many requests" in answers[2].text


async def test_who_has_no_right_does_not_use_up_the_requests_of_others() -> None:
    async with client_of(app_with(StoreShelf(1), rates=Rates(namespace=1))) as client:
        for _ in range(3):
            refused = await client.get("/$stores", headers=authorized("Sender", "send-key"))
            assert refused.status_code == 401
        assert (await client.get("/$stores", headers=authorized())).status_code == 200
