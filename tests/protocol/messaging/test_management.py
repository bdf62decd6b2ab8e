"""`$management`: peek, renew and settle by request, and everything it must refuse in form."""

import uuid
from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.performatives import Target
from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.values import AmqpArray, Int, Long, Symbol, Timestamp, Ulong
from bendybus.model.ids import SubQueue, sequence_number
from bendybus.server.requests import RESPONSES_WAITING_MAX
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient, receiving, sending
from tests.protocol.messaging.places import PLACES, sent_to
from tests.protocol.messaging.requesting import Requests, request, requests_to
from tests.protocol.messaging.sample_messages import Seen, message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served


async def _stored(client: WireClient, queue: str, count: int, body: bytes = b"x") -> None:
    sender = await client.sender(sent_to(queue), handle=90)
    for number in range(count):
        await sender.sent(message(body, message_id=f"id-{number}"), number)


async def _locked(client: WireClient, queue: str) -> Seen:
    """Send one message and lock it."""
    await _stored(client, queue, 1)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=1)
    return see((await receiver.receive()).payload)


def _tokens(*tokens: uuid.UUID) -> AmqpArray:
    return AmqpArray(uuid.UUID, tokens)


async def _peek(requests: Requests, start: int, count: int, **options: object) -> Any:
    body = {"from-sequence-number": Long(start), "message-count": Int(count)} | options
    return await requests.ask("com.microsoft:peek-message", body)


# Peek


@pytest.mark.spec("R3.5")
@pytest.mark.spec("R7.4")
async def test_peek_returns_the_oldest_as_whole_messages_without_locks(served: Served) -> None:
    client = await served.client()
    await _stored(client, "orders", 3)
    requests = await requests_to(client, "orders/$management")

    response = await _peek(requests, 1, 2)

    assert response.status == 200
    assert type(response.properties["statusCode"]) is Int
    assert isinstance(response.body["messages"], list)
    seen = [see(each["message"]) for each in response.body["messages"]]
    assert [each.sequence for each in seen] == [1, 2]
    assert seen[0].delivery_annotations == {}
    assert "x-opt-locked-until" not in seen[0].annotations
    assert seen[0].body == b"x"


@pytest.mark.spec("R3.5")
async def test_peek_shows_locked_messages_too(served: Served) -> None:
    client = await served.client()
    held = await _locked(client, "orders")
    requests = await requests_to(client, "orders/$management")

    response = await _peek(requests, 0, 10)

    assert [see(each["message"]).sequence for each in response.body["messages"]] == [held.sequence]


@pytest.mark.spec("R3.5")
async def test_repeated_peeks_of_a_partitioned_queue_see_every_message_once(
    served: Served,
) -> None:
    client = await served.client()
    await _stored(client, "parts", 40)
    requests = await requests_to(client, "parts/$management")
    seen: list[Seen] = []
    start = 0
    while (response := await _peek(requests, start, 7)).status == 200:
        page = [see(each["message"]) for each in response.body["messages"]]
        assert len({each.sequence >> 48 for each in page}) == 1
        seen += page
        start = page[-1].sequence + 1

    sequences = [each.sequence for each in seen]
    assert sequences == sorted(sequences)
    assert sorted(each.properties[0] for each in seen) == sorted(f"id-{n}" for n in range(40))
    assert response.status == 204


@pytest.mark.spec("R3.5")
async def test_an_answer_of_peek_has_at_most_256_kb_but_at_least_one_message(
    served: Served,
) -> None:
    client = await served.client()
    await _stored(client, "orders", 4, b"x" * 200_000)
    requests = await requests_to(client, "orders/$management")

    response = await _peek(requests, 1, 4)

    assert len(response.body["messages"]) == 1


@pytest.mark.spec("R7.4")
async def test_peek_of_nothing_is_204_with_its_condition(served: Served) -> None:
    client = await served.client()
    requests = await requests_to(client, "orders/$management")

    response = await _peek(requests, 1, 1)

    assert response.status == 204
    assert response.properties["errorCondition"] == "com.microsoft:message-not-found"
    assert type(response.properties["errorCondition"]) is Symbol


@pytest.mark.spec("R7.4")
async def test_peek_can_leave_bodies_out_of_valid_messages(served: Served) -> None:
    client = await served.client()
    await _stored(client, "orders", 1)
    requests = await requests_to(client, "orders/$management")

    response = await _peek(requests, 1, 1, **{"omit-message-body": True})

    seen = see(response.body["messages"][0]["message"])
    assert seen.body == b""
    assert seen.properties[0] == "id-0"


@pytest.mark.spec("R7.4")
async def test_the_dead_letters_have_a_management_node_of_their_own(served: Served) -> None:
    client = await served.client()
    await _stored(client, "orders", 1)
    receiver = await client.receiver("orders")
    receiver.flow(link_credit=1)
    delivery = await receiver.receive()
    receiver.settle(delivery, Rejected(None))
    await receiver.confirmed(delivery)

    main = await _peek(await requests_to(client, "orders/$management"), 0, 9)
    dead = await _peek(
        await requests_to(client, "orders/$DeadLetterQueue/$management", handle=20), 0, 9
    )

    assert (main.status, dead.status) == (204, 200)


# Renew


@pytest.mark.spec("R7.4")
@PLACES
async def test_renewing_answers_an_array_of_timestamps_and_keeps_the_lock(
    served: Served, queue: str
) -> None:
    client = await served.client()
    held = await _locked(client, queue)
    requests = await requests_to(client, f"{queue}/$management")
    served.clock.advance(LOCK_SECONDS - 1)

    response = await requests.ask("com.microsoft:renew-lock", {"lock-tokens": _tokens(held.token)})
    served.clock.advance(LOCK_SECONDS - 1)
    await served.broker.sweep.sweep_all()
    settled = await requests.ask(
        "com.microsoft:update-disposition",
        {"disposition-status": "completed", "lock-tokens": _tokens(held.token)},
    )

    until = Timestamp(NOON + (2 * LOCK_SECONDS - 1) * 1000)
    assert response.body == {"expirations": AmqpArray(Timestamp, (until,))}
    assert settled.status == 200
    assert await served.count(queue) == 0


@pytest.mark.spec("R7.4")
@pytest.mark.parametrize(
    ("queue", "token"),
    [
        pytest.param("orders", uuid.UUID(int=1 << 64 | 5), id="a nonce that holds nothing"),
        pytest.param("parts", uuid.UUID(int=sequence_number(3, 1) << 64 | 5), id="a fragment"),
        pytest.param("orders", uuid.UUID(int=sequence_number(1, 1) << 64 | 5), id="no fragment"),
        pytest.param("parts", uuid.UUID(int=2**128 - 1), id="larger than any number"),
    ],
)
@pytest.mark.parametrize(
    "operation",
    [
        ("renew-lock", {}),
        ("update-disposition", {"disposition-status": "completed"}),
        ("update-disposition", {"disposition-status": "abandoned"}),
        ("update-disposition", {"disposition-status": "suspended"}),
    ],
    ids=str,
)
async def test_a_token_that_holds_nothing_is_a_lost_lock(
    served: Served, queue: str, token: uuid.UUID, operation: tuple[str, dict[str, object]]
) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{queue}/$management")
    name, fields = operation

    response = await requests.ask(f"com.microsoft:{name}", {"lock-tokens": _tokens(token)} | fields)

    assert response.status == 410
    assert response.properties["errorCondition"] == "com.microsoft:message-lock-lost"


@pytest.mark.spec("R7.4")
async def test_one_lost_lock_fails_the_whole_renewal(served: Served) -> None:
    client = await served.client()
    held = await _locked(client, "orders")
    requests = await requests_to(client, "orders/$management")

    response = await requests.ask(
        "com.microsoft:renew-lock", {"lock-tokens": _tokens(held.token, uuid.UUID(int=7))}
    )

    assert response.status == 410


@pytest.mark.spec("R3.3")
async def test_a_lock_that_has_ended_cannot_be_renewed(served: Served) -> None:
    client = await served.client()
    held = await _locked(client, "orders")
    requests = await requests_to(client, "orders/$management")
    served.clock.advance(LOCK_SECONDS + 1)

    response = await requests.ask("com.microsoft:renew-lock", {"lock-tokens": _tokens(held.token)})

    assert response.status == 410


# Settle


@pytest.mark.spec("R7.4")
@PLACES
@pytest.mark.parametrize(
    ("fields", "main", "dead"),
    [
        ({"disposition-status": "completed"}, 0, 0),
        ({"disposition-status": "abandoned"}, 1, 0),
        ({"disposition-status": "unlocked"}, 1, 0),
        ({"disposition-status": "suspended", "deadletter-reason": "bad"}, 0, 1),
    ],
    ids=str,
)
async def test_any_receiver_can_settle_by_token_alone(
    served: Served, queue: str, fields: dict[str, object], main: int, dead: int
) -> None:
    held = await _locked(await served.client(), queue)
    other = await served.client()
    requests = await requests_to(other, f"{queue}/$management")

    response = await requests.ask(
        "com.microsoft:update-disposition", {"lock-tokens": _tokens(held.token)} | fields
    )

    assert response.status == 200
    assert await served.count(queue) == main
    assert await served.count(queue, SubQueue.DEAD_LETTER) == dead


@pytest.mark.spec("R7.4")
async def test_settling_by_request_can_change_properties(served: Served) -> None:
    client = await served.client()
    held = await _locked(client, "orders")
    requests = await requests_to(client, "orders/$management")
    await requests.ask(
        "com.microsoft:update-disposition",
        {
            "disposition-status": "suspended",
            "lock-tokens": _tokens(held.token),
            "deadletter-reason": "bad",
            "deadletter-description": "very",
            "properties-to-modify": {"attempt": Int(2)},
        },
    )

    receiver = await client.receiver("orders/$DeadLetterQueue", handle=3)
    receiver.flow(link_credit=1)

    assert see((await receiver.receive()).payload).application_properties == {
        "DeadLetterReason": "bad",
        "DeadLetterErrorDescription": "very",
        "attempt": 2,
    }


# Refusals


@pytest.mark.spec("R7.4")
@pytest.mark.parametrize(
    ("operation", "body", "status", "condition"),
    [
        ("no-such-thing", {}, 501, "amqp:not-implemented"),
        ("schedule-message", {}, 400, "com.microsoft:argument-error"),
        ("receive-by-sequence-number", {}, 400, "com.microsoft:argument-error"),
        (
            "receive-by-sequence-number",
            {"sequence-numbers": AmqpArray(Long, (Long(1),))},
            404,
            "com.microsoft:message-not-found",
        ),
        (
            "receive-by-sequence-number",
            {"sequence-numbers": ["1"]},
            400,
            "com.microsoft:argument-error",
        ),
        ("get-session-state", {"session-id": "s"}, 400, "amqp:not-allowed"),
        ("enumerate-rules", {}, 400, "amqp:not-allowed"),
        ("peek-message", None, 400, "com.microsoft:argument-error"),
        ("peek-message", {"message-count": "1"}, 400, "com.microsoft:argument-error"),
        ("peek-message", {"message-count": Int(0)}, 400, "com.microsoft:argument-out-of-range"),
        ("peek-message", {"session-id": 7}, 400, "com.microsoft:argument-error"),
        ("peek-message", {"from-sequence-number": Ulong(2**64 - 1)}, 204, None),
        ("peek-message", {"from-sequence-number": Long(-(2**63))}, 204, None),
        ("renew-lock", {}, 400, "com.microsoft:argument-error"),
        ("renew-lock", {"lock-tokens": AmqpArray(uuid.UUID)}, 400, "com.microsoft:argument-error"),
        ("renew-lock", {"lock-tokens": ["x"]}, 400, "com.microsoft:argument-error"),
        (
            "renew-lock",
            {"lock-tokens": _tokens(*[uuid.UUID(int=1)] * 4097)},
            400,
            "com.microsoft:argument-out-of-range",
        ),
        (
            "update-disposition",
            {"disposition-status": "burnt", "lock-tokens": _tokens(uuid.UUID(int=1))},
            400,
            "com.microsoft:argument-error",
        ),
        (
            "update-disposition",
            {
                "disposition-status": "abandoned",
                "lock-tokens": _tokens(uuid.UUID(int=1)),
                "properties-to-modify": "x",
            },
            400,
            "com.microsoft:argument-error",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_in_the_proper_form(
    served: Served, operation: str, body: object, status: int, condition: str | None
) -> None:
    client = await served.client()
    requests = await requests_to(client, "orders/$management")

    response = await requests.ask(f"com.microsoft:{operation}", body)

    assert response.status == status
    assert type(response.properties["statusCode"]) is Int
    assert isinstance(response.properties["statusDescription"], str)
    if condition is not None:
        assert response.properties["errorCondition"] == condition
        assert type(response.properties["errorCondition"]) is Symbol


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\xff\xff\xff", id="garbage"),
        pytest.param(encode_section(SectionCode.AMQP_VALUE, {}), id="no message-id"),
        pytest.param(
            encode_section(SectionCode.PROPERTIES, {"message-id": "x"}), id="properties as a map"
        ),
    ],
)
async def test_a_request_that_cannot_be_answered_is_rejected_on_its_own_link(
    served: Served, payload: bytes
) -> None:
    client = await served.client()
    requests = await requests_to(client, "orders/$management")

    outcome = await requests.to_node.sent(payload, 0)

    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "com.microsoft:argument-error"
    assert (await _peek(requests, 0, 1)).status == 204


# Where responses go


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    ("reply_to", "expected"),
    [("address-b", "b"), ("c", "c"), ("address-a", "a")],
    ids=["by target address", "by link name", "by target address, first"],
)
async def test_a_response_goes_where_reply_to_says(
    served: Served, reply_to: str, expected: str
) -> None:
    client = await served.client()
    requests = await client.sender("orders/$management")
    links = {}
    for handle, name in enumerate("abc", start=1):
        links[name] = await client.attach(
            receiving(
                "orders/$management",
                handle=handle,
                name=name,
                target=Target(address=f"address-{name}"),
            )
        )
        links[name].flow(link_credit=1)

    requests.send(request("com.microsoft:peek-message", {}, reply_to=reply_to), 0)

    assert see((await links[expected].receive()).payload).properties[5] == "request"


@pytest.mark.spec("R8.1")
async def test_without_reply_to_a_response_stays_in_the_session_of_its_request(
    served: Served,
) -> None:
    client = await served.client()
    await client.begin(1)
    other = await requests_to(client, "orders/$management", channel=1)
    own = await requests_to(client, "orders/$management", channel=0)

    assert (await _peek(own, 0, 1)).status == 204
    assert (await _peek(other, 0, 1)).status == 204


@pytest.mark.spec("R8.1")
async def test_a_request_without_a_link_to_answer_on_is_rejected(served: Served) -> None:
    client = await served.client()
    requests = await client.sender("orders/$management")

    await (await client.sender("orders", handle=5)).sent(message(), 1)
    delete = {"message-count": Int(1), "enqueued-time-utc": Timestamp(NOON)}

    outcome = await requests.sent(request("com.microsoft:batch-delete-messages", delete), 0)

    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert "receiver" in str(outcome.error.description)
    assert await served.count("orders") == 1, "what cannot be answered is not done"


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize("message_id", [uuid.UUID(int=9), Ulong(9), "nine", b"binary"])
async def test_the_correlation_id_keeps_the_type_of_the_message_id(
    served: Served, message_id: object
) -> None:
    client = await served.client()
    requests = await requests_to(client, "orders/$management")

    response = await requests.ask("com.microsoft:peek-message", {}, message_id=message_id)

    assert response.correlation_id == message_id
    assert type(response.correlation_id) is type(message_id)


@pytest.mark.spec("R8.1")
async def test_responses_wait_for_credit_and_are_accepted_first(served: Served) -> None:
    client = await served.client()
    to_node = await client.attach(sending("orders/$management", handle=2))
    from_node = await client.attach(receiving("orders/$management", handle=3))
    outcome = await to_node.sent(request("com.microsoft:peek-message", {}), 0)

    from_node.flow(link_credit=1)
    response = await from_node.receive()
    from_node.settle(response, Accepted())

    assert outcome == Accepted()
    assert await from_node.confirmed(response) == Accepted()


@pytest.mark.spec("R8.1")
async def test_requests_whose_responses_nobody_takes_are_refused_once_too_many_wait(
    served: Served,
) -> None:
    client = await served.client()
    to_node = await client.attach(sending("orders/$management", handle=2))
    await client.attach(receiving("orders/$management", handle=3))
    for number in range(RESPONSES_WAITING_MAX + 1):
        to_node.send(request("com.microsoft:no-such-thing", {}), number)

    last_good = await client.outcome(0, RESPONSES_WAITING_MAX - 1, receiver=True)
    first_bad = await client.outcome(0, RESPONSES_WAITING_MAX, receiver=True)

    assert last_good == Accepted()
    assert isinstance(first_bad, Rejected)
    assert first_bad.error is not None
    assert first_bad.error.condition == "com.microsoft:server-busy"
