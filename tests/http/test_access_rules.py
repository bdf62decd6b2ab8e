"""Access rules over HTTP: of the namespace, of queues and of topics."""

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from bendybus.model.access import make_sas
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.testing.clock import NOON
from tests.http.managing import Administrator, managing
from tests.http.store_shelf import authorized

ENTITIES = (
    Queue("orders"),
    Queue("depot/parts", QueueProperties(enable_partitioning=True)),
    Topic("news", subscriptions=(Subscription("all"),)),
)
LEVELS = ["", "/orders", "/depot/parts", "/depot%2Fparts", "/news"]
MOMENT = datetime.fromtimestamp(NOON / 1000, UTC)


@pytest.fixture
async def administrator(tmp_path: Path) -> AsyncIterator[Administrator]:
    async with managing(tmp_path, ENTITIES) as administrator:
        yield administrator


async def ask(
    administrator: Administrator,
    method: str,
    path: str,
    content: object = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    return await administrator.http.request(
        method, path, json=content, headers=headers or authorized(now=MOMENT)
    )


def signed(rule: str, key: str) -> dict[str, str]:
    token = make_sas("http://localhost/", rule, key, MOMENT + timedelta(minutes=5))
    return {"Authorization": token}


@pytest.mark.parametrize("level", LEVELS)
async def test_a_rule_lives_from_its_making_to_its_end(
    administrator: Administrator, level: str
) -> None:
    path = f"{level}/$authorizationRules"
    made = await ask(administrator, "PUT", f"{path}/desk", {"rights": ["Send"]})
    assert made.status_code == 200
    assert made.json() == {
        "name": "desk",
        "rights": ["Send"],
        "createdAt": "2027-01-15T08:00:00.000000Z",
        "modifiedAt": "2027-01-15T08:00:00.000000Z",
    }
    assert (await ask(administrator, "GET", f"{path}/desk")).json() == made.json()
    assert made.json() in (await ask(administrator, "GET", path)).json()

    shown = await ask(administrator, "POST", f"{path}/desk/listKeys")
    keys = shown.json()
    assert (keys["keyName"], shown.headers["cache-control"]) == ("desk", "no-store")
    renewed = await ask(
        administrator, "POST", f"{path}/desk/regenerateKeys", {"keyType": "SecondaryKey"}
    )
    assert renewed.json()["primaryKey"] == keys["primaryKey"]
    assert renewed.json()["secondaryKey"] != keys["secondaryKey"]

    assert (await ask(administrator, "DELETE", f"{path}/desk")).status_code == 204
    assert (await ask(administrator, "GET", f"{path}/desk")).status_code == 404


async def test_keys_open_what_they_are_for_and_nothing_once_they_are_replaced(
    administrator: Administrator,
) -> None:
    path = "/orders/$authorizationRules"
    rights = {"rights": ["Manage", "Send", "Listen"], "primaryKey": "a-key-of-the-queue"}
    await ask(administrator, "PUT", f"{path}/boss", rights)
    headers = signed("boss", "a-key-of-the-queue")

    assert (await ask(administrator, "GET", path, headers=headers)).status_code == 200
    for elsewhere in ("/$authorizationRules", "/news/$authorizationRules", "/news"):
        answer = await ask(administrator, "GET", elsewhere, headers=headers)
        assert answer.status_code == 401, elsewhere

    await ask(administrator, "POST", f"{path}/boss/regenerateKeys", {"keyType": "PrimaryKey"})
    assert (await ask(administrator, "GET", path, headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("method", "suffix"),
    [
        ("GET", ""),
        ("GET", "/desk"),
        ("PUT", "/desk"),
        ("DELETE", "/desk"),
        ("POST", "/desk/listKeys"),
        ("POST", "/desk/regenerateKeys"),
    ],
)
@pytest.mark.parametrize("level", LEVELS)
async def test_rules_are_for_those_who_may_manage(
    administrator: Administrator, level: str, method: str, suffix: str
) -> None:
    path = f"{level}/$authorizationRules{suffix}"
    for headers in (authorized("Sender", "send-key", now=MOMENT), {"Authorization": ""}):
        answer = await ask(administrator, method, path, {}, headers=headers)
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("rights", "not a JSON object"),
        ({}, "'rights' must be a list"),
        ({"rights": "Send"}, "'rights' must be a list"),
        ({"rights": ["Write"]}, "'rights' must be a list"),
        ({"rights": [["Send"]]}, "'rights' must be a list"),
        ({"rights": []}, "gives no right"),
        ({"rights": ["Manage"]}, "together with Send and Listen"),
        ({"rights": ["Send"], "primaryKey": 7}, "'primaryKey' must be a text"),
        ({"rights": ["Send"], "primaryKey": "short-secret"}, "between 16 and 256"),
    ],
)
async def test_a_rule_that_cannot_be_is_refused(
    administrator: Administrator, content: Any, text: str
) -> None:
    answer = await ask(administrator, "PUT", "/orders/$authorizationRules/desk", content)
    assert answer.status_code == 400
    assert text in answer.text
    assert "short-secret" not in answer.text
    rules = await ask(administrator, "GET", "/orders/$authorizationRules")
    assert rules.json() == []


@pytest.mark.parametrize("content", [{}, {"keyType": "Third"}, {"keyType": ["PrimaryKey"]}])
async def test_only_the_two_keys_there_are_can_be_renewed(
    administrator: Administrator, content: object
) -> None:
    path = "/orders/$authorizationRules/desk"
    await ask(administrator, "PUT", path, {"rights": ["Send"]})
    answer = await ask(administrator, "POST", f"{path}/regenerateKeys", content)
    assert answer.status_code == 400
    assert "must be PrimaryKey or SecondaryKey" in answer.text


@pytest.mark.parametrize(
    "path",
    ["/nowhere/$authorizationRules", "/news/Subscriptions/all/$authorizationRules"],
)
async def test_what_has_no_rules_of_its_own_is_not_found(
    administrator: Administrator, path: str
) -> None:
    assert (await ask(administrator, "GET", path)).status_code == 404


async def test_nothing_that_is_logged_holds_a_key(
    administrator: Administrator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = "/orders/$authorizationRules/desk"
    wish = {"rights": ["Send"], "primaryKey": "the-secret-of-the-desk"}
    await ask(administrator, "PUT", path, wish)
    await ask(administrator, "PUT", path, {**wish, "secondaryKey": "the-secret;"})
    await ask(administrator, "GET", path, headers=signed("desk", "the-secret-of-nobody"))
    await ask(administrator, "GET", path, headers={"Authorization": "Bearer the-secret.x.y"})
    assert "the-secret" not in caplog.text
