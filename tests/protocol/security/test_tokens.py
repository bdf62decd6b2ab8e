"""Who gets in: names and keys, tokens, rights, and what happens when a token ends."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.amqp.frames import SASL_HEADER, encode_sasl_frame
from bendybus.amqp.outcomes import Accepted, AmqpError, Rejected
from bendybus.amqp.performatives import Close, SaslInit, SaslMechanisms, SaslOutcome
from bendybus.amqp.values import Int
from bendybus.model.access import AccessRule, Right
from bendybus.server.connection import UNPROVEN_SECONDS_MAX
from bendybus.testing.local_broker import ROOT_RULE
from bendybus.testing.wire_client import WireClient, WireLink, receiving, sending
from tests.protocol.messaging.requesting import Requests, put_token, requests_to, token_for
from tests.protocol.messaging.sample_messages import message
from tests.protocol.messaging.serving import ROOT_LOGIN, Served, serving

SEND_RULE = AccessRule("only-send", "send-key", frozenset({Right.SEND}), "second-send-key")
LISTEN_RULE = AccessRule("only-listen", "listen-key", frozenset({Right.LISTEN}))
RULES = (ROOT_RULE, SEND_RULE, LISTEN_RULE)
ORDERS = "sb://localhost/orders"


async def _stranger(served: Served) -> tuple[WireClient, Requests]:
    """Connect without proving anything, with links to `$cbs`."""
    client = await served.stranger()
    await client.log_in()
    await client.begin()
    return client, await requests_to(client, "$cbs")


async def _error(link: WireLink) -> AmqpError:
    error = (await link.detached()).error
    assert error is not None
    return error


def _tick(served: Served) -> None:
    """Let the connections look at the clock, as the listener does every second."""
    for connection in list(served.listener.connections):
        connection.tick(served.clock.now())


# Name and key


@pytest.mark.amqp("5.3.3.6")
async def test_a_good_name_and_key_need_no_token(served: Served) -> None:
    client = await served.client()

    assert await (await client.sender("orders")).sent(message(), 0) == Accepted()


@pytest.mark.amqp("5.3.3.6")
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"\0RootManageSharedAccessKey\0wrong", id="wrong key"),
        pytest.param(b"\0nobody\0SAS_KEY_VALUE", id="unknown rule"),
        pytest.param(b"\0RootManageSharedAccessKey\0", id="empty key"),
        pytest.param(b"", id="empty"),
        pytest.param(b"RootManageSharedAccessKey", id="no separators"),
        pytest.param(b"\0\xff\xfe\0\xff", id="not utf-8"),
        pytest.param(ROOT_LOGIN + b"\0", id="a zero behind the key"),
    ],
)
async def test_a_wrong_name_or_key_ends_the_connection_with_sasl_code_1(
    served: Served, response: bytes
) -> None:
    client = await served.stranger()
    client.write(SASL_HEADER)
    await client.hear(SaslMechanisms)

    client.write(encode_sasl_frame(SaslInit("PLAIN", response, None)))

    assert (await client.hear(SaslOutcome)).body.code == 1
    await client.until_closed()


async def test_a_mechanism_that_was_not_offered_is_refused(served: Served) -> None:
    client = await served.stranger()
    client.write(SASL_HEADER + encode_sasl_frame(SaslInit("SCRAM-SHA-1", b"", None)))

    assert (await client.hear(SaslOutcome)).body.code != 0
    await client.until_closed()


# Tokens


@pytest.mark.parametrize(
    ("audience", "address"),
    [
        (ORDERS, "orders"),
        ("sb://localhost:5672/orders/", "orders"),
        ("amqps://LOCALHOST/ORDERS", "orders"),
        ("amqp://other.name/orders", "orders"),
        ("sb://localhost/orders/$management", "orders"),
        ("sb://localhost/", "orders"),
        ("sb://localhost/depot%2Fspare-parts", "depot/Spare-Parts"),
    ],
)
async def test_a_token_opens_what_it_is_signed_for(
    served: Served, audience: str, address: str
) -> None:
    client, tokens = await _stranger(served)

    answer = await put_token(tokens, audience, token_for(audience))

    assert answer == {"status-code": 202, "status-description": "Accepted"}
    assert type(answer["status-code"]) is Int
    await client.sender(address, handle=5)
    await client.receiver(f"{address}/$DeadLetterQueue", handle=6)


@pytest.mark.parametrize(
    ("audience", "token", "status", "words"),
    [
        pytest.param(ORDERS, token_for(ORDERS, key="wrong"), 401, "InvalidSignature", id="key"),
        pytest.param(
            ORDERS,
            token_for(ORDERS, rule=AccessRule("nobody", "x", frozenset())),
            401,
            "InvalidSignature",
            id="rule",
        ),
        pytest.param(ORDERS, token_for(ORDERS, seconds=-1), 401, "ExpiredToken", id="expired"),
        pytest.param(
            ORDERS, token_for("sb://localhost/parts"), 401, "InvalidAudience", id="other resource"
        ),
        pytest.param(ORDERS, "SharedAccessSignature sr=x", 400, "MalformedToken", id="malformed"),
        pytest.param(ORDERS, "eyJhbGciOiJIUzI1NiJ9.e30.x", 401, "InvalidToken", id="a real jwt"),
        pytest.param(ORDERS, b"bytes", 400, "not a token", id="not a text"),
        pytest.param("", token_for(ORDERS), 400, "no audience", id="no audience"),
        pytest.param(
            "sb://localhost/nowhere",
            token_for("sb://localhost/nowhere"),
            404,
            "The messaging entity 'sb://sbemulatorns/nowhere' could not be found",
            id="unknown entity",
        ),
    ],
)
async def test_a_bad_token_is_refused_with_its_reason_and_opens_nothing(
    served: Served, audience: str, token: object, status: int, words: str
) -> None:
    client, tokens = await _stranger(served)

    answer = await put_token(tokens, audience, token)

    assert answer["status-code"] == status
    assert type(answer["status-code"]) is Int
    assert words in answer["status-description"]
    link = await client.attach(sending("orders", handle=5))
    assert (await _error(link)).condition == "amqp:unauthorized-access"


async def test_other_operations_of_the_token_node_are_not_implemented(served: Served) -> None:
    _, tokens = await _stranger(served)

    response = await tokens.ask("delete-token", "x")

    assert response.properties["status-code"] == 501


async def test_after_a_refused_token_a_good_one_is_taken(served: Served) -> None:
    client, tokens = await _stranger(served)
    await put_token(tokens, ORDERS, token_for(ORDERS, key="wrong"))

    assert (await put_token(tokens, ORDERS, token_for(ORDERS)))["status-code"] == 202

    await client.sender("orders", handle=5)


async def test_a_token_for_one_queue_does_not_open_another(served: Served) -> None:
    client, tokens = await _stranger(served)
    await put_token(tokens, ORDERS, token_for(ORDERS))

    link = await client.attach(sending("parts", handle=5))

    error = await _error(link)
    assert error.condition == "amqp:unauthorized-access"
    assert "'Send' claim(s) are required" in str(error.description)
    assert "parts" in str(error.description)


# Rights


@pytest.fixture
async def guarded(template: Path, tmp_path: Path) -> AsyncIterator[Served]:
    """A broker with rules that may only send and only listen."""
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    async with serving(tmp_path, rules=RULES) as served:
        yield served


@pytest.mark.parametrize("key", SEND_RULE.keys)
async def test_a_rule_that_may_send_cannot_listen(guarded: Served, key: str) -> None:
    client, tokens = await _stranger(guarded)
    answer = await put_token(tokens, ORDERS, token_for(ORDERS, rule=SEND_RULE, key=key))

    sender = await client.sender("orders", handle=5)
    receiver = await client.attach(receiving("orders", handle=6))

    assert answer["status-code"] == 202
    assert await sender.sent(message(), 0) == Accepted()
    error = await _error(receiver)
    assert error.condition == "amqp:unauthorized-access"
    assert "'Listen' claim(s) are required" in str(error.description)


async def test_a_rule_that_may_listen_cannot_send(guarded: Served) -> None:
    client, tokens = await _stranger(guarded)
    await put_token(tokens, ORDERS, token_for(ORDERS, rule=LISTEN_RULE))

    await client.receiver("orders", handle=5)
    sender = await client.attach(sending("orders", handle=6))

    assert "'Send' claim(s) are required" in str((await _error(sender)).description)


@pytest.mark.parametrize(
    ("rule", "operation", "status"),
    [
        (LISTEN_RULE, "peek-message", 204),
        (SEND_RULE, "peek-message", 401),
        (SEND_RULE, "renew-lock", 401),
        (SEND_RULE, "update-disposition", 401),
        (SEND_RULE, "schedule-message", 400),
        (SEND_RULE, "cancel-scheduled-message", 400),
        (LISTEN_RULE, "cancel-scheduled-message", 401),
        (LISTEN_RULE, "batch-delete-messages", 400),
        (SEND_RULE, "batch-delete-messages", 401),
        (LISTEN_RULE, "schedule-message", 401),
        (LISTEN_RULE, "add-rule", 401),
        (ROOT_RULE, "add-rule", 400),
    ],
)
async def test_management_needs_the_right_of_what_it_does(
    guarded: Served, rule: AccessRule, operation: str, status: int
) -> None:
    client, tokens = await _stranger(guarded)
    await put_token(tokens, ORDERS, token_for(ORDERS, rule=rule))
    requests = await requests_to(client, "orders/$management", handle=20)

    response = await requests.ask(f"com.microsoft:{operation}", {})

    assert response.status == status


async def test_management_without_any_token_is_unauthorized(served: Served) -> None:
    client, _ = await _stranger(served)
    requests = await requests_to(client, "orders/$management", handle=20)

    response = await requests.ask("com.microsoft:peek-message", {})

    assert response.status == 401
    assert response.properties["errorCondition"] == "amqp:unauthorized-access"


# The end of a token


async def test_a_link_is_detached_when_its_token_ends(served: Served) -> None:
    client, tokens = await _stranger(served)
    await put_token(tokens, ORDERS, token_for(ORDERS, seconds=60))
    sender = await client.sender("orders", handle=5)
    receiver = await client.receiver("orders", handle=6)
    served.clock.advance(59)
    _tick(served)
    assert await sender.sent(message(), 0) == Accepted()

    served.clock.advance(2)
    _tick(served)

    for link in (sender, receiver):
        error = await _error(link)
        assert error.condition == "amqp:unauthorized-access"
        assert "ExpiredToken" in str(error.description)
    link = await client.attach(sending("orders", handle=7))
    assert (await _error(link)).condition == "amqp:unauthorized-access"


async def test_a_renewed_token_keeps_the_links_without_attaching_again(served: Served) -> None:
    client, tokens = await _stranger(served)
    await put_token(tokens, ORDERS, token_for(ORDERS, seconds=60))
    sender = await client.sender("orders", handle=5)
    served.clock.advance(50)

    await put_token(tokens, ORDERS, token_for(ORDERS, seconds=3600))
    served.clock.advance(60)
    _tick(served)

    assert await sender.sent(message(), 0) == Accepted()


async def test_a_detached_receiver_gives_back_what_it_was_not_handed(served: Served) -> None:
    client, tokens = await _stranger(served)
    await put_token(tokens, ORDERS, token_for(ORDERS, seconds=60))
    other = await served.client()
    for number in range(10):
        await (await other.sender("orders", handle=20 + number)).sent(message(), number)
    receiver = await client.receiver("orders", handle=5)
    # One frame, the answer of the token node, is behind us in this session; one more may come.
    receiver.flow(link_credit=10, incoming_window=2)
    await receiver.receive()

    served.clock.advance(61)
    _tick(served)
    await receiver.detached()
    again = await other.receiver("orders", handle=50)
    again.flow(link_credit=9)

    assert len([await again.receive() for _ in range(9)]) == 9


async def test_a_connection_that_proves_nothing_is_closed_after_a_while(served: Served) -> None:
    client, _ = await _stranger(served)
    served.clock.advance(UNPROVEN_SECONDS_MAX - 1)
    _tick(served)
    await client.attach(receiving("$cbs", handle=30))

    served.clock.advance(2)
    _tick(served)

    error = (await client.hear(Close)).body.error
    assert error is not None
    assert error.condition == "amqp:unauthorized-access"


async def test_a_stranger_who_never_speaks_is_dropped_too(served: Served) -> None:
    client = await served.stranger()
    await served.client()
    served.clock.advance(UNPROVEN_SECONDS_MAX + 1)

    _tick(served)

    await client.until_closed()
    assert len(served.listener.connections) == 1


async def test_a_transfer_behind_a_refused_link_goes_nowhere(served: Served) -> None:
    client, _ = await _stranger(served)
    link = await client.attach(sending("orders", handle=5))
    assert (await _error(link)).condition == "amqp:unauthorized-access"

    link.send(message(), 0, settled=True)
    await put_token(await requests_to(client, "$cbs", handle=40), ORDERS, token_for(ORDERS))

    assert await served.count("orders") == 0
    assert not any(isinstance(each.state, Rejected) for each in client.outcomes_heard())
