"""What goes over the leash between a worker and the process that keeps the doors."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import bendybus.doors.door
from bendybus.doors import arrivals as arriving
from bendybus.doors.arrivals import Arrivals
from bendybus.doors.crowd import Crowd
from bendybus.doors.door import Door, open_door
from bendybus.doors.leash import WORDS_BYTES_MAX, Leash, LeashCut, leash


@pytest.fixture
def ends() -> Iterator[tuple[Leash, Leash]]:
    keeper, worker = leash()
    yield keeper, worker
    keeper.close()
    worker.close()


def taking(
    end: Leash,
    *,
    number: int = 0,
    crowd: Crowd | None = None,
    stop: asyncio.Event | None = None,
    cut: asyncio.Event | None = None,
) -> Arrivals:
    found = Arrivals(
        end,
        (crowd or Crowd(2)).seat(0),
        number=number,
        workers=2,
        note_stop=(stop or asyncio.Event()).set,
        note_cut=(cut or asyncio.Event()).set,
    )
    found.begin()
    return found


def test_words_and_a_connection_go_over_together(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert keeper.send("amqp", theirs)
    assert keeper.send("alone")
    first = worker.receive()
    assert first is not None
    assert first.words == "amqp"
    assert first.connection is not None
    first.connection.close()
    assert worker.receive() == ("alone", None)
    assert worker.receive() is None


def test_whose_other_end_is_gone_notices(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    keeper.close()
    with pytest.raises(LeashCut):
        worker.receive()
    assert not worker.send("anything")


def test_nobody_waits_for_one_who_does_not_read(ends: tuple[Leash, Leash]) -> None:
    keeper, _ = ends
    sent = 0
    while keeper.send("x" * WORDS_BYTES_MAX):
        sent += 1
        assert sent < 10_000
    assert sent > 10


async def test_a_connection_comes_to_its_door(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    arrivals = taking(worker)
    came: asyncio.Queue[socket.socket] = asyncio.Queue()

    def take(connection: socket.socket) -> asyncio.Task[None]:
        return asyncio.create_task(came.put(connection))

    arrivals.welcome("amqp", take)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keeper.send("amqp", theirs)
        theirs.close()
        with await came.get() as taken:
            taken.send(b"hello")
            assert ours.recv(5) == b"hello"
    arrivals.end()


async def test_who_still_shakes_hands_counts_as_a_client(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    crowd = Crowd(2)
    arrivals = taking(worker, crowd=crowd)
    shaking: asyncio.Queue[asyncio.Future[None]] = asyncio.Queue()

    def take(connection: socket.socket) -> asyncio.Future[None]:
        connection.close()
        hands = asyncio.get_running_loop().create_future()
        shaking.put_nowait(hands)
        return hands

    arrivals.welcome("amqps", take)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keeper.send("amqps", theirs)
    crowd.give(0, is_counted=True)
    # The other one has a client, too: of equals it is the other one's turn.
    crowd.seat(1).note_open(1)
    async with asyncio.timeout(10):
        hands = await shaking.get()
    assert crowd.by_room() == [1, 0]
    hands.set_result(None)
    await asyncio.sleep(0)
    assert crowd.by_room() == [0, 1], "it went away"
    arrivals.end()


async def test_all_who_come_to_a_worker_at_once_are_let_in(
    ends: tuple[Leash, Leash], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bendybus.doors.door, "HANDSHAKES_MAX", 3)
    keeper, worker = ends
    arrivals = taking(worker)
    there: asyncio.Queue[asyncio.Protocol] = asyncio.Queue()

    def make() -> asyncio.Protocol:
        there.put_nowait(protocol := asyncio.Protocol())
        return protocol

    with ExitStack() as open_ends:
        for _ in range(10):
            ours, theirs = socket.socketpair()
            open_ends.enter_context(ours)
            with theirs:
                assert keeper.send("amqp", theirs)
        door = await open_door(Door("amqp", "127.0.0.1", 0, arrivals=arrivals), make)
        async with asyncio.timeout(10):
            for _ in range(10):
                await there.get()
        door.close()
        await door.wait_closed()
    arrivals.end()


async def test_a_connection_for_no_door_is_closed(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    arrivals = taking(worker)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        keeper.send("http", theirs)
        theirs.close()
        assert await asyncio.get_running_loop().sock_recv(ours, 1) == b""
    arrivals.end()


async def test_a_worker_notices_that_the_keeper_is_gone(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    stop, cut = asyncio.Event(), asyncio.Event()
    taking(worker, stop=stop, cut=cut)
    keeper.close()
    async with asyncio.timeout(10):
        await cut.wait()
    assert not stop.is_set()


async def test_a_worker_that_is_told_to_stop_is_not_cut_off(ends: tuple[Leash, Leash]) -> None:
    keeper, worker = ends
    stop, cut = asyncio.Event(), asyncio.Event()
    taking(worker, stop=stop, cut=cut)
    keeper.send("stop")
    keeper.close()
    async with asyncio.timeout(10):
        await stop.wait()
    await asyncio.sleep(0)
    assert not cut.is_set()


async def relay(keepers: list[Leash]) -> None:
    """Pass one question on, as the keeper does."""
    parcel = None
    while parcel is None:
        await asyncio.sleep(0)
        parcel = keepers[0].receive()
    assert parcel.connection is not None
    words = parcel.words.replace("?1 ", "?")
    keepers[1].send(words, parcel.connection)
    parcel.connection.close()


async def test_a_worker_answers_what_another_asks() -> None:
    pairs = [leash(), leash()]
    asking, answering = (taking(pair[1], number=each) for each, pair in enumerate(pairs))

    async def repeat(words: str) -> bytes:
        return words.encode() * 100_000

    answering.answer("say", repeat)
    relaying = asyncio.create_task(relay([pair[0] for pair in pairs]))
    assert await asking.ask("say this") == {1: b"this" * 100_000}
    await relaying
    for each in (asking, answering):
        each.end()
    for pair in pairs:
        pair[0].close()
        pair[1].close()


async def test_a_worker_that_is_away_has_no_answer(
    ends: tuple[Leash, Leash], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arriving, "ANSWER_SECONDS_MAX", 0.05)
    _, worker = ends
    arrivals = taking(worker)
    assert await arrivals.ask("say this") == {1: None}
    arrivals.end()
