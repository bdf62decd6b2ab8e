"""Sessions by both clients against the real broker, on both kinds of queue."""

import asyncio
from typing import Any

import pytest

from bendybus.client import Message, SubQueue
from bendybus.client.errors import (
    InvalidOperation,
    SessionLockLost,
    SessionUnavailable,
    TimedOut,
)
from tests.client.conftest import LOCK_SECONDS, Connect, Served

pytestmark = pytest.mark.spec("R8.2")

SOON = 10.0


@pytest.fixture(params=["ledger", "ledgers"], ids=["conventional", "partitioned"])
def ledger(request: pytest.FixtureRequest) -> str:
    """Which kind of queue with sessions a test uses."""
    return str(request.param)


async def post(client: Any, queue: str, session_id: str, *bodies: bytes) -> None:
    """Send messages of one session."""
    await client.sender(queue).send([Message(each, session_id=session_id) for each in bodies])


async def take(session: Any, count: int) -> list[Any]:
    """Receive so many messages, in as many calls as it takes."""
    found: list[Any] = []
    while len(found) < count:
        some = await session.receive(count - len(found), SOON)
        assert some, f"{len(found)} of {count} messages came"
        found += some
    return found


async def test_a_session_yields_its_messages_in_order(client: Any, ledger: str) -> None:
    await post(client, ledger, "s", b"1", b"2", b"3")
    await post(client, ledger, "t", b"other")

    session = await client.accept_session(ledger, "s", timeout=SOON)

    assert session.session_id == "s"
    messages = await take(session, 3)
    assert [each.body for each in messages] == [b"1", b"2", b"3"]
    assert {each.session_id for each in messages} == {"s"}
    await session.complete(messages)
    assert await session.receive(1, 0.2) == []


async def test_the_next_session_is_one_with_messages(client: Any, ledger: str) -> None:
    await post(client, ledger, "s", b"1")
    session = await client.accept_session(ledger, timeout=SOON)
    assert session.session_id == "s"
    with pytest.raises(TimedOut):
        await client.accept_session(ledger, timeout=0.3)


async def test_a_session_that_another_holds_is_refused_until_it_is_given_back(
    client: Any, connect: Connect, ledger: str
) -> None:
    await post(client, ledger, "s", b"1")
    session = await client.accept_session(ledger, "s", timeout=SOON)
    await session.receive(1, SOON)
    other = connect()
    with pytest.raises(SessionUnavailable):
        await other.accept_session(ledger, "s", timeout=SOON)

    await session.close()

    again = await other.accept_session(ledger, "s", timeout=SOON)
    [message] = await again.receive(1, SOON)
    assert message.delivery_count == 0


async def test_a_state_stays_with_the_session(client: Any, connect: Connect, ledger: str) -> None:
    session = await client.accept_session(ledger, "s", timeout=SOON)
    assert await session.state() is None
    await session.set_state(b"so far")
    await session.close()
    again = await connect().accept_session(ledger, "s", timeout=SOON)
    assert await again.state() == b"so far"
    await again.set_state(None)
    assert await again.state() is None


async def test_a_lock_on_a_session_lasts_as_long_as_it_is_renewed(
    client: Any, served: Served, ledger: str
) -> None:
    await post(client, ledger, "s", b"1")
    session = await client.accept_session(ledger, "s", timeout=SOON)
    [message] = await session.receive(1, SOON)
    for _ in range(2):
        served.clock.advance(LOCK_SECONDS - 1)
        assert await session.renew_session_lock() == session.locked_until
    await session.complete(message)
    assert await served.count(ledger) == 0


@pytest.mark.spec("R3.3")
async def test_a_session_whose_lock_ended_is_lost_and_says_so(
    client: Any, connect: Connect, served: Served, ledger: str
) -> None:
    await post(client, ledger, "s", b"1")
    session = await client.accept_session(ledger, "s", timeout=SOON)
    [message] = await session.receive(1, SOON)
    served.clock.advance(LOCK_SECONDS)
    with pytest.raises(SessionLockLost):
        await session.renew_session_lock()
    with pytest.raises(SessionLockLost):
        await session.complete(message)
    await served.broker.sweep.sweep_all()
    again = await connect().accept_session(ledger, timeout=SOON)
    [message] = await again.receive(1, SOON)
    assert (message.body, message.delivery_count) == (b"1", 1)


async def test_deferred_messages_and_dead_letters_of_a_session(client: Any, ledger: str) -> None:
    await post(client, ledger, "s", b"1", b"2")
    session = await client.accept_session(ledger, "s", timeout=SOON)
    [first, second] = await take(session, 2)
    await session.defer(first)
    await session.dead_letter(second, "late", "too late")
    [deferred] = await session.receive_deferred([first.sequence_number])
    await session.complete(deferred)
    assert await session.peek(10) == []
    [dead] = await client.receiver(ledger, sub_queue=SubQueue.DEAD_LETTER).receive(1, SOON)
    assert (dead.body, dead.session_id) == (b"2", "s")


async def test_sessions_are_listed(client: Any, ledger: str) -> None:
    assert await client.sessions(ledger) == []
    for number in range(5):
        await post(client, ledger, f"s{number}", b"x")
    assert sorted(await client.sessions(ledger)) == [f"s{number}" for number in range(5)]


async def test_who_waits_gets_the_session_that_comes(
    client: Any, connect: Connect, ledger: str
) -> None:
    other = connect()
    waiting = asyncio.ensure_future(client.accept_session(ledger, timeout=SOON))
    await post(other, ledger, "s", b"1")
    session = await waiting
    assert session.session_id == "s"


async def test_what_belongs_to_sessions_and_what_does_not(client: Any, ledger: str) -> None:
    with pytest.raises(InvalidOperation, match="SessionId was not set"):
        await client.sender(ledger).send(Message(b"whose?"))
    with pytest.raises(InvalidOperation, match="non-sessionful"):
        await client.receiver(ledger).receive(1, SOON)
    with pytest.raises(InvalidOperation, match="does not require sessions"):
        await client.accept_session("orders", "s", timeout=SOON)
