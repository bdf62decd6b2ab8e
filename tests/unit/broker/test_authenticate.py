"""Tokens against the keys of a namespace and its entities, as those change."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bendybus.broker import authenticate
from bendybus.broker.access_keys import new_key, with_access
from bendybus.broker.authenticate import Authentication
from bendybus.broker.update import update
from bendybus.model.access import AccessRule, Claims, Right, make_sas
from bendybus.model.access_rules import KeyKind, with_renewed_key
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic, TopicProperties
from bendybus.model.errors import AuthenticationFailed
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import ROOT_RULE, LocalBroker, local_broker

SENDER = AccessRule("sender", new_key(), frozenset({Right.SEND}), new_key())
LISTENER = AccessRule("listener", new_key(), frozenset({Right.LISTEN}))
ENTITIES = (
    Queue("a", QueueProperties(authorization_rules=(SENDER,))),
    Queue("a/b", QueueProperties(enable_partitioning=True)),
    Topic(
        "news",
        TopicProperties(authorization_rules=(LISTENER,), enable_partitioning=True),
        (Subscription("all"),),
    ),
)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    async with local_broker(tmp_path, ENTITIES, ManualClock(), stores=2) as broker:
        broker.catalog.access.rules = (ROOT_RULE,)
        yield broker


def token(resource: str, rule: AccessRule, *, key: str | None = None, seconds: int = 60) -> str:
    ends_at = datetime.fromtimestamp(NOON / 1000 + seconds, UTC)
    return make_sas(f"sb://localhost/{resource}", rule.name, key or rule.keys[0], ends_at)


async def claims(
    authentication: Authentication, text: str, entity: str | None, resource: str | None = None
) -> Claims:
    path = resource if resource is not None else entity or ""
    return await authentication.claims(text, resource=path, entity=entity, address="there")


@pytest.fixture
def authentication(broker: LocalBroker) -> Authentication:
    return Authentication(broker.catalog, broker.clock)


@pytest.mark.parametrize("signed_for", ["a", "A", "a/", ""])
async def test_a_key_of_a_queue_opens_that_queue(
    authentication: Authentication, signed_for: str
) -> None:
    given = await claims(authentication, token(signed_for, SENDER), "a")
    assert given.allows(Right.SEND, "A")
    assert not given.allows(Right.LISTEN, "a")


@pytest.mark.parametrize("other", ["a/b", "news", None])
@pytest.mark.parametrize("signed_for", ["a", "a/b", "news", ""])
async def test_a_key_of_a_queue_opens_nothing_else(
    authentication: Authentication, other: str | None, signed_for: str
) -> None:
    text = token(signed_for, SENDER)
    with pytest.raises(AuthenticationFailed):
        await claims(authentication, text, other)
    if signed_for in ("a", ""):
        given = await claims(authentication, text, "a")
        assert not any(given.allows(right, other) for right in Right)


async def test_a_key_of_a_topic_opens_its_subscriptions(authentication: Authentication) -> None:
    resource = "news/Subscriptions/all/$DeadLetterQueue"
    given = await claims(authentication, token("news", LISTENER), "news", resource)
    assert given.allows(Right.LISTEN, "news")


async def test_a_token_for_one_subscription_does_not_cover_the_topic(
    authentication: Authentication,
) -> None:
    text = token("news/subscriptions/all", LISTENER)
    await claims(authentication, text, "news", "news/Subscriptions/ALL")
    with pytest.raises(AuthenticationFailed, match="InvalidAudience"):
        await claims(authentication, text, "news")


async def test_a_good_token_is_checked_once_and_still_ends(
    broker: LocalBroker, authentication: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = token("a", SENDER)
    first = await claims(authentication, text, "a")
    monkeypatch.setattr(authenticate, "read_sas", None)

    assert await claims(authentication, text, "a") is first
    with pytest.raises(AuthenticationFailed, match="InvalidAudience"):
        await claims(authentication, text, "a", "elsewhere")
    assert isinstance(broker.clock, ManualClock)
    broker.clock.advance(60)
    with pytest.raises(AuthenticationFailed, match="ExpiredToken"):
        await claims(authentication, text, "a")


@pytest.mark.parametrize("level", ["namespace", "queue"])
async def test_a_key_that_was_replaced_opens_nothing_from_then_on(
    broker: LocalBroker, authentication: Authentication, level: str
) -> None:
    catalog = broker.catalog
    rule = replace(SENDER, name="both")
    renewed = with_renewed_key(rule, KeyKind.PRIMARY, new_key(), NOON)

    async def set_rule(rule: AccessRule) -> None:
        if level == "namespace":
            catalog.access.rules = (rule,)
        else:
            entity = catalog.record("a").entity
            assert isinstance(entity, Queue)
            await update(catalog, with_access(entity, (rule,)), now=NOON)

    await set_rule(rule)
    first, second = token("a", rule), token("a", rule, key=rule.secondary_key)
    await claims(authentication, first, "a")
    await set_rule(renewed)

    with pytest.raises(AuthenticationFailed, match="InvalidSignature"):
        await claims(authentication, first, "a")
    await claims(authentication, second, "a")
    await claims(authentication, token("a", renewed), "a")


async def test_no_more_tokens_are_remembered_than_the_bound(
    authentication: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "TOKENS_MAX", 3)
    for seconds in range(1, 10):
        await claims(authentication, token("a", SENDER, seconds=seconds), "a")
    assert len(authentication._known) == 3


async def test_an_entity_that_is_not_there_has_no_keys(authentication: Authentication) -> None:
    with pytest.raises(AuthenticationFailed, match="InvalidSignature"):
        await claims(authentication, token("none", SENDER), "none")
    given = await claims(authentication, token("none", ROOT_RULE), "none")
    assert given.allows(Right.MANAGE, "none")


async def test_other_tokens_are_refused_where_no_issuer_is_known(
    authentication: Authentication,
) -> None:
    with pytest.raises(AuthenticationFailed, match="not told of an issuer"):
        await claims(authentication, "eyJhbGciOiJub25lIn0.e30.", "a")


def test_new_keys_are_32_bytes_that_nobody_has_seen() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {44}
