"""What is asked about sessions by request: locks, states, listings, deferred messages."""

from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted, Modified
from bendybus.amqp.values import AmqpArray, Int, Long, Timestamp, Uint
from tests.protocol.messaging.places import SESSION_PLACES
from tests.protocol.messaging.requesting import Requests, requests_to
from tests.protocol.messaging.sample_messages import see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served
from tests.protocol.messaging.session_links import asking, post, take

EVERY_SESSION = Timestamp(253402300800000)
# The latest time of .NET, cut to a millisecond.
LAST_MOMENT = Timestamp(253402300799999)


async def answered(requests: Requests, operation: str, **body: object) -> Any:
    """Make a request that succeeds and return the body of the response."""
    named = {name.replace("_", "-"): value for name, value in body.items()}
    response = await requests.ask(f"com.microsoft:{operation}", named)
    assert response.status == 200, response.properties
    return response.body


async def refused(requests: Requests, operation: str, **body: object) -> tuple[int, object]:
    """Make a request that fails and return status and condition."""
    named = {name.replace("_", "-"): value for name, value in body.items()}
    response = await requests.ask(f"com.microsoft:{operation}", named)
    return response.status, response.properties.get("errorCondition")


@SESSION_PLACES
async def test_a_renewed_session_is_not_detached(served: Served, queue: str) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1")
    link = await client.attach(asking(queue, "s"))
    requests = await requests_to(client, f"{queue}/$management")
    [delivery] = await take(link, 1)
    served.clock.advance(LOCK_SECONDS - 1)

    body = await answered(requests, "renew-session-lock", session_id="s")

    assert type(body["expiration"]) is Timestamp
    assert body["expiration"] == served.clock.now() + LOCK_SECONDS * 1000
    served.clock.advance(LOCK_SECONDS - 1)
    await served.broker.sweep.sweep_all()
    link.settle(delivery, Accepted())
    assert await link.confirmed(delivery) == Accepted()


@SESSION_PLACES
async def test_a_request_counts_for_the_link_that_it_names(served: Served, queue: str) -> None:
    client = await served.client()
    link = await client.attach(asking(queue, "s"))
    requests = await requests_to(client, f"{queue}/$management")
    body = {"session-id": "s"}
    for name, status in ((link.attach.name, 200), ("another", 410)):
        response = await requests.ask(
            "com.microsoft:renew-session-lock", body, associated_link_name=name
        )
        assert response.status == status


@SESSION_PLACES
async def test_a_state_is_set_and_read_by_who_holds_the_session(served: Served, queue: str) -> None:
    client, other = await served.client(), await served.client()
    await client.attach(asking(queue, "s"))
    mine = await requests_to(client, f"{queue}/$management")
    theirs = await requests_to(other, f"{queue}/$management")

    assert (await answered(mine, "get-session-state", session_id="s"))["session-state"] is None
    await answered(mine, "set-session-state", session_id="s", session_state=b"so far")
    body = await answered(mine, "get-session-state", session_id="s")
    assert body["session-state"] == b"so far"
    lost = (410, "com.microsoft:session-lock-lost")
    for operation in ("get-session-state", "set-session-state", "renew-session-lock"):
        assert await refused(theirs, operation, session_id="s") == lost
        assert await refused(mine, operation, session_id="t") == lost
        assert await refused(mine, operation) == (400, "com.microsoft:argument-error")
    await answered(mine, "set-session-state", session_id="s", session_state=None)
    assert (await answered(mine, "get-session-state", session_id="s"))["session-state"] is None
    assert await refused(mine, "set-session-state", session_id="s", session_state="text") == (
        400,
        "com.microsoft:argument-error",
    )
    too_large = bytes(256 * 1024 + 1)
    assert await refused(mine, "set-session-state", session_id="s", session_state=too_large) == (
        400,
        "com.microsoft:argument-out-of-range",
    )


@pytest.mark.spec("R7.4")
@SESSION_PLACES
async def test_sessions_are_listed_in_pages(served: Served, queue: str) -> None:
    client = await served.client()
    for session_id in ("a", "b", "c"):
        await post(client, queue, session_id, b"1")
    requests = await requests_to(client, f"{queue}/$management")

    first = await answered(
        requests, "get-message-sessions", last_updated_time=EVERY_SESSION, skip=Int(0), top=Int(2)
    )
    second = await answered(
        requests,
        "get-message-sessions",
        last_updated_time=LAST_MOMENT,
        skip=first["skip"],
        top=Int(2),
    )

    assert isinstance(first["sessions-ids"], AmqpArray)
    assert first["sessions-ids"].item_type is str
    assert (type(first["skip"]), first["skip"]) == (Int, 2)
    assert len(first["sessions-ids"].items) == 2
    assert {*first["sessions-ids"].items, *second["sessions-ids"].items} == {"a", "b", "c"}
    response = await requests.ask(
        "com.microsoft:get-message-sessions",
        {"last-updated-time": EVERY_SESSION, "skip": Int(3), "top": Int(2)},
    )
    assert response.status == 204
    assert response.properties["errorCondition"] == "com.microsoft:session-not-found"


@SESSION_PLACES
async def test_sessions_are_listed_whose_state_was_set_since(served: Served, queue: str) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{queue}/$management")
    for handle, session_id in enumerate(("early", "late"), 3):
        await client.attach(asking(queue, session_id, handle=handle))
        await answered(requests, "set-session-state", session_id=session_id, session_state=b"x")
        served.clock.advance(2)

    since = Timestamp(served.clock.now() - 3000)
    body = await answered(
        requests, "get-message-sessions", last_updated_time=since, skip=Int(0), top=Int(10)
    )

    assert body["sessions-ids"].items == ("late",)


@SESSION_PLACES
async def test_peeking_with_a_session_shows_its_messages_alone(served: Served, queue: str) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1", b"2")
    await post(client, queue, "t", b"3")
    requests = await requests_to(client, f"{queue}/$management")

    body = await answered(
        requests,
        "peek-message",
        from_sequence_number=Long(0),
        message_count=Int(10),
        session_id="s",
    )

    assert [see(each["message"]).body for each in body["messages"]] == [b"1", b"2"]


@SESSION_PLACES
async def test_deferred_messages_are_had_back_and_settled_by_who_holds_the_session(
    served: Served, queue: str
) -> None:
    client, other = await served.client(), await served.client()
    await post(client, queue, "s", b"1")
    link = await client.attach(asking(queue, "s"))
    [delivery] = await take(link, 1)
    link.settle(delivery, Modified(None, True, None))
    await link.confirmed(delivery)
    numbers = AmqpArray(Long, (Long(see(delivery.payload).sequence),))
    mine = await requests_to(client, f"{queue}/$management")
    theirs = await requests_to(other, f"{queue}/$management")
    wish = {"sequence_numbers": numbers, "receiver_settle_mode": Uint(1), "session_id": "s"}

    assert (await refused(theirs, "receive-by-sequence-number", **wish))[0] == 410
    body = await answered(mine, "receive-by-sequence-number", **wish)

    [entry] = body["messages"]
    assert see(entry["message"]).body == b"1"
    tokens = AmqpArray(type(entry["lock-token"]), (entry["lock-token"],))
    await answered(
        mine,
        "update-disposition",
        disposition_status="completed",
        lock_tokens=tokens,
        session_id="s",
    )
    assert await served.count(queue) == 0


async def test_locks_of_messages_are_not_renewed_apart_from_their_session(served: Served) -> None:
    client = await served.client()
    await post(client, "sessions", "s", b"1")
    link = await client.attach(asking("sessions", "s"))
    [delivery] = await take(link, 1)
    requests = await requests_to(client, "sessions/$management")
    token = see(delivery.payload).token

    answer = await refused(requests, "renew-lock", lock_tokens=AmqpArray(type(token), (token,)))

    assert answer == (400, "amqp:not-allowed")
