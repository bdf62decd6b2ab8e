"""What a signed payload of an issuer proves."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.access import Claims, Right
from bendybus.model.errors import AuthenticationFailed
from bendybus.model.token_issuer import SKEW, RoleRights, TokenIssuer, claims_of_payload

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())
AUDIENCE = "https://servicebus.azure.net/"
ISSUER = TokenIssuer("https://issuer", AUDIENCE, "keys.json")
OWNER = "Azure Service Bus Data Owner"
SENDER = "Azure Service Bus Data Sender"
RECEIVER = "Azure Service Bus Data Receiver"


def payload(**changes: object) -> dict[str, object]:
    whole: dict[str, object] = {
        "iss": "https://issuer",
        "aud": AUDIENCE,
        "exp": SECONDS + 3600,
        "sub": "somebody",
        "roles": [OWNER],
    }
    return {name: each for name, each in (whole | changes).items() if each is not None}


def claims(issuer: TokenIssuer = ISSUER, **changes: object) -> Claims:
    return claims_of_payload(payload(**changes), issuer, now=NOON)


def test_a_payload_gives_who_and_until_when() -> None:
    given = claims()
    assert (given.holder, given.resource_path) == ("somebody", "")
    assert given.expires_at == NOON + timedelta(hours=1) + SKEW


@pytest.mark.parametrize(
    ("changes", "rights"),
    [
        ({"roles": [OWNER]}, {Right.MANAGE, Right.SEND, Right.LISTEN}),
        ({"roles": [SENDER]}, {Right.SEND}),
        ({"roles": [RECEIVER]}, {Right.LISTEN}),
        ({"roles": [SENDER, RECEIVER, "other"]}, {Right.SEND, Right.LISTEN}),
        ({"roles": SENDER}, {Right.SEND}),
        ({"roles": None}, set()),
        ({"roles": [1, None, {}]}, set()),
        ({"roles": {"a": OWNER}}, set()),
        ({"roles": [SENDER.lower()]}, set()),
    ],
)
def test_roles_give_rights(changes: dict[str, Any], rights: set[Right]) -> None:
    assert claims(**changes).rights == rights


@pytest.mark.parametrize("scp", ["queue.send queue.read", ["queue.send"], "queue.send"])
def test_the_words_of_a_scope_are_roles_too(scp: object) -> None:
    issuer = TokenIssuer(
        "https://issuer", AUDIENCE, "k", (RoleRights("queue.send", frozenset({Right.SEND})),)
    )
    assert claims(issuer, roles=None, scp=scp).rights == {Right.SEND}


def test_a_role_of_one_entity_opens_that_alone() -> None:
    issuer = TokenIssuer(
        "https://issuer",
        AUDIENCE,
        "k",
        (
            RoleRights("desk", frozenset({Right.SEND}), "Depot/Orders"),
            RoleRights("desk", frozenset({Right.LISTEN}), "depot/orders"),
            RoleRights("boss", frozenset({Right.MANAGE})),
        ),
    )
    desk = claims(issuer, roles=["desk"])
    assert [right for right in Right if desk.allows(right, "depot/Orders")] == [
        Right.LISTEN,
        Right.SEND,
    ]
    assert not any(desk.allows(right, entity) for right in Right for entity in ("depot", None))
    assert claims(issuer, roles=["boss"]).allows(Right.SEND, "anything")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"iss": "https://other"}, "InvalidIssuer"),
        ({"iss": None}, "InvalidIssuer"),
        ({"aud": "https://other"}, "InvalidAudience"),
        ({"aud": None}, "InvalidAudience"),
        ({"aud": ["https://a", 1]}, "InvalidAudience"),
        ({"aud": f"{AUDIENCE}more"}, "InvalidAudience"),
        ({"exp": None}, "'exp'"),
        ({"exp": str(SECONDS + 60)}, "'exp'"),
        ({"exp": True}, "'exp'"),
        ({"exp": SECONDS - 300}, "ExpiredToken"),
        ({"exp": float("nan")}, "'exp'"),
        ({"exp": -1e300}, "'exp'"),
        ({"exp": 10**18}, "'exp'"),
        ({"nbf": SECONDS + 301}, "not valid yet"),
        ({"nbf": "soon"}, "'nbf'"),
    ],
)
def test_a_payload_that_proves_nothing_is_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(AuthenticationFailed, match=text):
        claims(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": AUDIENCE.rstrip("/")},
        {"aud": f"{AUDIENCE}/"},
        {"aud": ["https://other", AUDIENCE]},
        {"exp": SECONDS - 299},
        {"nbf": SECONDS + 300},
        {"exp": SECONDS * 100},
        {"sub": None},
        {"sub": 7},
    ],
)
def test_clocks_may_differ_a_little_and_audiences_by_a_slash(changes: dict[str, Any]) -> None:
    assert claims(**changes).allows(Right.MANAGE)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["aud", "exp", "nbf", "sub", "roles", "scp"]), VALUES))
def test_whatever_a_payload_says_it_is_judged(changes: dict[str, Any]) -> None:
    with suppress(AuthenticationFailed):
        given_claims = claims_of_payload({**payload(), **changes}, ISSUER, now=NOON)
        assert given_claims.expires_at > NOON
