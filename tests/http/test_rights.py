"""Every door of HTTP against every right: what opens it, and that nothing else does."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from bendybus.broker.access_keys import new_key
from bendybus.model.access import AccessRule, Right, make_sas
from bendybus.model.actions import RIGHTS_NEEDED, Action
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import local_broker, serving_http

MOMENT = datetime.fromtimestamp(NOON / 1000, UTC)
LOCK = "00000000-0000-0000-0000-000000000000"


def rules(level: str) -> dict[Right, AccessRule]:
    """Make a rule for every right."""
    return {
        right: AccessRule(
            f"{level}-{right.value}",
            new_key(),
            frozenset(Right) if right is Right.MANAGE else frozenset({right}),
        )
        for right in Right
    }


OF_NAMESPACE, OF_ENTITY = rules("namespace"), rules("entity")
OWN = tuple(OF_ENTITY.values())
ENTITIES = (
    Queue("orders", QueueProperties(authorization_rules=OWN)),
    Queue("parts", QueueProperties(authorization_rules=OWN, enable_partitioning=True)),
    Topic(
        "news",
        TopicProperties(authorization_rules=OWN, enable_partitioning=True),
        (Subscription("all"),),
    ),
    Queue("bare"),
)


@dataclass(frozen=True, slots=True)
class Way:
    """A request, what it does, and the queue or topic that it is about."""

    method: str
    path: str
    action: Action
    entity: str | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def ways_to(entity: str, source: str) -> list[Way]:
    """Return every request about an entity, and about where its messages come out."""
    rule = f"/{entity}/$authorizationRules/none"
    requests = [
        ("POST", f"/{entity}/messages", Action.SEND),
        ("POST", f"/{source}/messages/head?timeout=0", Action.RECEIVE),
        ("DELETE", f"/{source}/messages/head?timeout=0", Action.RECEIVE),
        ("POST", f"/{source}/$DeadLetterQueue/messages/head?timeout=0", Action.RECEIVE),
        ("PUT", f"/{source}/messages/1/{LOCK}", Action.SETTLE),
        ("DELETE", f"/{source}/messages/1/{LOCK}", Action.SETTLE),
        ("POST", f"/{source}/messages/1/{LOCK}", Action.RENEW),
        ("GET", f"/{entity}", Action.MANAGE_ENTITY),
        ("PUT", f"/{entity}", Action.MANAGE_ENTITY),
        ("GET", f"/{entity}/subscriptions/none", Action.MANAGE_ENTITY),
        ("DELETE", f"/{entity}/subscriptions/none", Action.MANAGE_ENTITY),
        ("GET", f"/{entity}/subscriptions/none/rules", Action.MANAGE_ENTITY),
        ("GET", f"/{entity}/$authorizationRules", Action.MANAGE_ACCESS),
        ("GET", rule, Action.MANAGE_ACCESS),
        ("PUT", rule, Action.MANAGE_ACCESS),
        ("DELETE", rule, Action.MANAGE_ACCESS),
        ("POST", f"{rule}/listKeys", Action.MANAGE_ACCESS),
        ("POST", f"{rule}/regenerateKeys", Action.MANAGE_ACCESS),
    ]
    return [Way(method, path, action, entity) for method, path, action in requests]


WAYS = [
    *ways_to("orders", "orders"),
    *ways_to("parts", "parts"),
    *ways_to("news", "news/subscriptions/all"),
    Way("GET", "/$namespaceinfo", Action.MANAGE_ENTITY),
    Way("GET", "/$Resources/queues", Action.MANAGE_ENTITY),
    Way("GET", "/$authorizationRules", Action.MANAGE_ACCESS),
    Way("POST", "/$authorizationRules/none/listKeys", Action.MANAGE_ACCESS),
    Way("GET", "/$namespaces", Action.MANAGE_NAMESPACES),
    Way("GET", "/$namespaces/none", Action.MANAGE_NAMESPACES),
    Way("PUT", "/$namespaces/no", Action.MANAGE_NAMESPACES),
    Way("PATCH", "/$namespaces/none", Action.MANAGE_NAMESPACES),
    Way("DELETE", "/$namespaces/none", Action.MANAGE_NAMESPACES),
    Way("POST", "/$namespaces/none/$authorizationRules/x/listKeys", Action.MANAGE_NAMESPACES),
    Way("GET", "/$stores", Action.MANAGE_STORES),
    Way("POST", "/$stores/9/offline", Action.MANAGE_STORES),
    Way("POST", "/$stores/9/online", Action.MANAGE_STORES),
]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        local_broker(tmp_path, ENTITIES, ManualClock(), stores=2) as broker,
        serving_http(broker, tuple(OF_NAMESPACE.values())) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client,
    ):
        yield client


async def is_let_in(client: httpx.AsyncClient, way: Way, rule: AccessRule) -> bool:
    """Make the request with a token of the rule; say whether it got past the door."""
    token = make_sas("http://localhost/", rule.name, rule.keys[0], MOMENT + timedelta(hours=1))
    answer = await client.request(way.method, way.path, headers={"Authorization": token})
    assert answer.status_code < 500, f"{way}: {answer.text}"
    return answer.status_code != 401


@pytest.mark.parametrize("right", Right)
async def test_a_key_of_the_namespace_opens_what_its_right_allows(
    client: httpx.AsyncClient, right: Right
) -> None:
    let_in = [way for way in WAYS if await is_let_in(client, way, OF_NAMESPACE[right])]
    assert let_in == [way for way in WAYS if _allows(right, way.action)]


@pytest.mark.parametrize("right", Right)
async def test_a_key_of_an_entity_opens_what_its_right_allows_there_and_nothing_else(
    client: httpx.AsyncClient, right: Right
) -> None:
    ways = [*WAYS, *ways_to("bare", "bare")]
    let_in = [way for way in ways if await is_let_in(client, way, OF_ENTITY[right])]
    assert let_in == [
        way for way in ways if way.entity not in (None, "bare") and _allows(right, way.action)
    ]


async def test_without_a_token_nothing_is_open(client: httpx.AsyncClient) -> None:
    for way in WAYS:
        answer = await client.request(way.method, way.path)
        assert answer.status_code == 401, way
        assert "MissingToken" in answer.text


def _allows(right: Right, action: Action) -> bool:
    return right in (RIGHTS_NEEDED[action], Right.MANAGE)
