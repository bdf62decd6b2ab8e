"""Bearer tokens of an issuer that runs beside: its keys come and go, and others try to sign."""

import asyncio
import base64
import hashlib
import hmac
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from bendybus.broker.authenticate import Authentication
from bendybus.broker.bearer_tokens import BearerTokens
from bendybus.broker.issuer_keys import REST_SECONDS, KeySetInvalid, read_keys
from bendybus.http import issuers
from bendybus.http.issuers import document_source, trusting
from bendybus.model.access import TOKEN_LENGTH_MAX, Claims, Right
from bendybus.model.errors import AuthenticationFailed, ServerBusy, TokenMalformed
from bendybus.model.token_issuer import TokenIssuer
from bendybus.testing.clock import NOON, ManualClock
from tests.http.local_issuer import LocalIssuer, local_issuer, new_key
from tests.http.store_shelf import no_entities

SECONDS = NOON // 1000
_PUBLISHER = LocalIssuer("")
_PUBLISHER.add_key("good")
GOOD_KEY = _PUBLISHER.published["good"]
AN_HOUR = SECONDS + 3600


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with local_issuer() as issuer:
        issuer.add_key("first")
        yield issuer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bearer(issuer: LocalIssuer, clock: ManualClock) -> AsyncIterator[BearerTokens]:
    async with trusting(issuer.trusted, clock) as bearer:
        assert bearer is not None
        await bearer.keys.refreshed()
        clock.advance(REST_SECONDS)
        yield bearer


@pytest.fixture
def authentication(bearer: BearerTokens, clock: ManualClock) -> Authentication:
    return Authentication(no_entities().default, clock, bearer)


async def claims(authentication: Authentication, token: str) -> Claims:
    return await authentication.claims(token, resource="orders", entity="orders", address="")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_token_of_the_issuer_opens(
    authentication: Authentication, issuer: LocalIssuer, algorithm: str
) -> None:
    issuer.add_key("ours", algorithm)
    given = await claims(authentication, issuer.token("ours", expires=AN_HOUR))
    assert (given.holder, given.rights) == ("somebody", frozenset(Right))


async def test_a_token_is_refused_after_its_end_and_the_skew(
    authentication: Authentication, issuer: LocalIssuer, clock: ManualClock
) -> None:
    token = issuer.token("first", expires=SECONDS + 60)
    await claims(authentication, token)
    clock.advance(60 + 299 - REST_SECONDS)
    await claims(authentication, token)
    clock.advance(1)
    with pytest.raises(AuthenticationFailed, match="ExpiredToken"):
        await claims(authentication, token)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"aud": "https://storage.azure.com/"}, "InvalidAudience"),
        ({"iss": "https://other"}, "InvalidIssuer"),
        ({"nbf": SECONDS + 600}, "not valid yet"),
        ({"exp": SECONDS - 600}, "ExpiredToken"),
    ],
)
async def test_a_token_for_others_or_another_time_is_refused(
    authentication: Authentication, issuer: LocalIssuer, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(AuthenticationFailed, match=text):
        await claims(authentication, issuer.token("first", **{"expires": AN_HOUR, **changes}))


async def test_a_token_that_somebody_else_signed_is_refused(
    authentication: Authentication, issuer: LocalIssuer
) -> None:
    token = jwt.encode(
        issuer.payload(expires=AN_HOUR), new_key("ES256"), "ES256", headers={"kid": "first"}
    )
    with pytest.raises(AuthenticationFailed, match="InvalidSignature"):
        await claims(authentication, token)


async def test_a_changed_payload_is_refused(
    authentication: Authentication, issuer: LocalIssuer
) -> None:
    header, _, signature = issuer.token("first", expires=AN_HOUR, roles=[]).split(".")
    payload = _encoded(issuer.payload(expires=AN_HOUR))
    with pytest.raises(AuthenticationFailed, match="InvalidSignature"):
        await claims(authentication, f"{header}.{payload}.{signature}")


async def test_an_unsigned_token_is_refused(
    authentication: Authentication, issuer: LocalIssuer
) -> None:
    for algorithm in ("none", "None", "NONE", ""):
        header = _encoded({"alg": algorithm, "kid": "first"})
        token = f"{header}.{_encoded(issuer.payload(expires=AN_HOUR))}."
        with pytest.raises(AuthenticationFailed, match="signed with RS256 or ES256"):
            await claims(authentication, token)


async def test_the_public_key_is_not_taken_for_a_shared_secret(
    authentication: Authentication, issuer: LocalIssuer
) -> None:
    issuer.add_key("rsa", "RS256")
    public = issuer.private_key("rsa").public_key()
    secret = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signed = (
        f"{_encoded({'alg': 'HS256', 'kid': 'rsa'})}.{_encoded(issuer.payload(expires=AN_HOUR))}"
    )
    signature = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    with pytest.raises(AuthenticationFailed, match="signed with RS256 or ES256"):
        await claims(authentication, f"{signed}.{_base64(signature)}")


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_key_signs_with_its_own_algorithm_only(
    authentication: Authentication, issuer: LocalIssuer, algorithm: str
) -> None:
    other = "ES256" if algorithm == "RS256" else "RS256"
    issuer.add_key("ours", algorithm)
    _, payload, signature = issuer.token("ours", expires=AN_HOUR).split(".")
    header = _encoded({"alg": other, "kid": "ours"})
    with pytest.raises(AuthenticationFailed, match="InvalidSignature"):
        await claims(authentication, f"{header}.{payload}.{signature}")


@pytest.mark.parametrize(
    "token",
    ["", "a", "a.b", "a.b.c", "....", "e30.e30.e30", f"{'e30' * 2000}.e30.e30", "\ud800.a.b"],
)
async def test_what_is_no_token_is_refused(authentication: Authentication, token: str) -> None:
    with pytest.raises(AuthenticationFailed):
        await claims(authentication, token)


async def test_a_long_token_is_not_even_looked_at(authentication: Authentication) -> None:
    with pytest.raises(TokenMalformed, match="longer than"):
        await claims(authentication, "e" * (TOKEN_LENGTH_MAX + 1))


async def test_a_token_that_names_no_key_or_needs_extensions_is_refused(
    authentication: Authentication, issuer: LocalIssuer
) -> None:
    key, payload = issuer.private_key("first"), issuer.payload(expires=AN_HOUR)
    with pytest.raises(AuthenticationFailed, match="kid"):
        await claims(authentication, jwt.encode(payload, key, "ES256"))
    headers = {"kid": "first", "crit": ["more"], "more": True}
    with pytest.raises(TokenMalformed):
        await claims(authentication, jwt.encode(payload, key, "ES256", headers=headers))


# Keys that come and go


async def test_a_new_key_is_fetched_when_a_token_names_it(
    authentication: Authentication, issuer: LocalIssuer
) -> None:
    await claims(authentication, issuer.token("first", expires=AN_HOUR))
    assert issuer.asked == 1
    issuer.add_key("second", "RS256")

    await claims(authentication, issuer.token("second", expires=AN_HOUR))

    assert issuer.asked == 2


async def test_unknown_keys_do_not_make_the_broker_ask_all_the_time(
    authentication: Authentication, issuer: LocalIssuer, clock: ManualClock
) -> None:
    issuer.add_key("hidden")
    del issuer.published["hidden"]
    for _ in range(2):
        for _ in range(10):
            with pytest.raises(AuthenticationFailed, match="No key of the issuer"):
                await claims(authentication, issuer.token("hidden", expires=AN_HOUR))
        clock.advance(REST_SECONDS)
    assert issuer.asked == 3


async def test_a_key_that_was_taken_back_opens_nothing_once_that_is_known(
    authentication: Authentication, bearer: BearerTokens, issuer: LocalIssuer
) -> None:
    token = issuer.token("first", expires=AN_HOUR)
    await claims(authentication, token)
    issuer.add_key("second")
    del issuer.published["first"]

    await bearer.keys.refreshed()

    with pytest.raises(AuthenticationFailed, match="No key of the issuer"):
        await claims(authentication, token)


async def test_while_the_issuer_is_away_the_keys_that_are_known_count(
    authentication: Authentication, bearer: BearerTokens, issuer: LocalIssuer
) -> None:
    await bearer.keys.refreshed()
    for status, raw in ((500, None), (200, b"<html>"), (200, b"[]"), (200, b"x" * 300_000)):
        issuer.status, issuer.raw = status, raw
        await bearer.keys.refreshed()
        await claims(authentication, issuer.token("first", expires=AN_HOUR))


async def test_while_no_key_was_ever_read_the_client_is_told_to_come_back(
    issuer: LocalIssuer, clock: ManualClock
) -> None:
    issuer.status = 503
    async with trusting(issuer.trusted, clock) as bearer:
        authentication = Authentication(no_entities().default, clock, bearer)
        with pytest.raises(ServerBusy, match="could not be read"):
            await claims(authentication, issuer.token("first", expires=AN_HOUR))
        issuer.status = 200
        clock.advance(REST_SECONDS)
        await claims(authentication, issuer.token("first", expires=AN_HOUR))


async def test_keys_are_not_fetched_from_where_the_issuer_points_to(
    issuer: LocalIssuer, clock: ManualClock
) -> None:
    with local_issuer() as other:
        other.add_key("first")
        issuer.status, issuer.location = 302, f"{other.url}/keys"
        async with trusting(issuer.trusted, clock) as bearer:
            authentication = Authentication(no_entities().default, clock, bearer)
            with pytest.raises(ServerBusy):
                await claims(authentication, other.token("first", expires=AN_HOUR, iss=issuer.url))
        assert other.asked == 0


async def test_keys_are_read_from_a_file_too(
    issuer: LocalIssuer, clock: ManualClock, tmp_path: Path
) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(issuer.document())
    told = TokenIssuer(issuer.url, issuer.trusted.audience, str(path))
    async with trusting(told, clock) as bearer:
        authentication = Authentication(no_entities().default, clock, bearer)
        await claims(authentication, issuer.token("first", expires=AN_HOUR))
    assert issuer.asked == 0


async def test_a_file_that_is_not_there_is_an_error_of_reading(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"keys\.json"):
        await document_source(str(tmp_path / "keys.json"))()


async def test_what_does_not_answer_as_a_web_server_is_an_error_of_reading() -> None:
    def talk() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"SSH-2.0-something\r\n")
            connection.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        talking = asyncio.create_task(asyncio.to_thread(talk))
        with pytest.raises(OSError, match="does not answer as a web server"):
            await document_source(f"http://127.0.0.1:{listener.getsockname()[1]}/keys")()
        await talking


async def test_one_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuers, "TIMEOUT_SECONDS", 0.01)
    # The kernel takes the connection, and nobody reads.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fetch = document_source(f"http://127.0.0.1:{listener.getsockname()[1]}/keys")
        with pytest.raises(OSError, match=r"timed out|no answer"):
            await fetch()


async def test_without_an_issuer_there_is_nobody_to_trust(clock: ManualClock) -> None:
    async with trusting(None, clock) as bearer:
        assert bearer is None


@pytest.mark.parametrize(
    "fields",
    [
        {"use": "enc"},
        {"alg": "HS256"},
        {"alg": "ES384"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"crv": "P-384"},
        {"kid": 7},
        {"x": "!"},
        {"d": "c2VjcmV0"},
    ],
)
def test_keys_that_are_not_for_signing_are_left_out(
    issuer: LocalIssuer, fields: dict[str, Any]
) -> None:
    issuer.add_key("odd", **fields)
    assert list(read_keys(issuer.document())) == ["first"]


ODD = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=50)
    | st.lists(st.text(max_size=3), max_size=2)
)
FIELDS = st.sampled_from(["kty", "kid", "use", "alg", "crv", "x", "y", "n", "e", "oth", "key_ops"])


@given(st.sampled_from(["RSA", "EC", "oct", "OKP"]), st.dictionaries(FIELDS, ODD))
def test_whatever_stands_in_a_key_the_others_can_be_used(kind: str, fields: dict[str, Any]) -> None:
    odd = {"kty": kind, "kid": "odd", "crv": "P-256", "x": "AA", "y": "AA", "n": "AA", "e": "AQAB"}
    document = json.dumps({"keys": [odd | fields, GOOD_KEY]}).encode()
    assert "good" in read_keys(document)


def test_a_short_rsa_key_is_left_out(issuer: LocalIssuer) -> None:
    issuer.add_key("short", "RS256", bits=1024)
    assert list(read_keys(issuer.document())) == ["first"]


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": 1}', b"[" * 100_000, b"\xff"])
def test_what_is_no_set_of_keys_is_said_to_be_none(document: bytes) -> None:
    with pytest.raises(KeySetInvalid):
        read_keys(document)


def _encoded(value: dict[str, object]) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
