"""Stores are moved to servers under load, and the broker is killed meanwhile."""

import asyncio
import random
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.client import AsyncClient
from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import Acknowledged, Rule, check_history
from bendybus.testing.postgres import PASSWORD, PostgresServer
from tests.cli.command import run
from tests.kill.load import QUEUES, Load
from tests.kill.logbook import Logbook
from tests.kill.test_kill import CONFIG
from tests.kill.test_workers_killed import WORKERS, all_back, kill_worker

STORES: Final = 2
ENTRIES_BEFORE: Final = 3000
ENTRIES_OF_MOVE_MAX: Final = 4000
SECONDS_MAX: Final = 60
AWAY_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.05


@pytest.mark.spec("R2.5")
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    ("moved", "kills"),
    [
        pytest.param(1, 1, marks=pytest.mark.timeout(240)),
        pytest.param(STORES, 20, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_nothing_is_lost_or_doubled_when_stores_move_and_the_broker_is_killed(
    moved: int, kills: int, workers: int, shared_postgres: PostgresServer
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    options = ("--stores", str(STORES), "--workers", str(workers))
    with broker_process(CONFIG, options=options) as broker, ExitStack() as stack:
        urls = [stack.enter_context(shared_postgres.lent_database()) for _ in range(moved)]
        load = Load(book, rng)
        async with load.running(lambda: broker.amqp_port):
            await book.at(ENTRIES_BEFORE, lambda: None)
            for number, url in enumerate(urls):
                for _ in range(kills):
                    moving = asyncio.create_task(asyncio.to_thread(move, broker, number, url))
                    await book.kill_after(rng.randint(1, ENTRIES_OF_MOVE_MAX), broker)
                    await moving
                    await asyncio.to_thread(broker.start)
                if not is_moved(broker, number):
                    said = await asyncio.to_thread(move, broker, number, url)
                    assert said.startswith(f"store {number} is at postgresql://"), said
            # It serves there now, and finds them there when it starts.
            await book.kill_after(ENTRIES_BEFORE, broker)
            await asyncio.to_thread(broker.start)
            load.only_receive()
            await all_received(broker, book)
            assert await asyncio.to_thread(broker.stop) == 0
        for queue in QUEUES:
            assert check_history(book.logs[queue]) == [], f"with seed {seed}"
            assert sum(isinstance(each, Acknowledged) for each in book.logs[queue]) > 500
        assert PASSWORD not in broker.log
        check_folder(broker.folder / "data", urls)


@pytest.mark.spec("R1.2")
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, marks=[pytest.mark.prove, pytest.mark.timeout(240)]),
        pytest.param(30, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_nothing_is_lost_or_doubled_when_stores_move_and_workers_are_killed(
    kills: int, shared_postgres: PostgresServer
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    options = ("--stores", str(STORES), "--workers", str(WORKERS))
    with (
        broker_process(CONFIG, options=options) as broker,
        shared_postgres.lent_database() as url,
    ):
        load = Load(book, rng)
        async with load.running(lambda: broker.amqp_port):
            await book.at(ENTRIES_BEFORE, lambda: None)
            for _ in range(kills):
                moving = asyncio.create_task(asyncio.to_thread(move, broker, 0, url))
                # One of them moves the store, and any of them may be hit.
                entries = rng.randint(1, ENTRIES_OF_MOVE_MAX)
                await book.at(entries, partial(kill_worker, broker, rng))
                await moving
                await all_back(broker)
            async with asyncio.timeout(SECONDS_MAX):
                while not is_moved(broker, 0):
                    await asyncio.to_thread(move, broker, 0, url)
            await book.at(ENTRIES_BEFORE, lambda: None)
            load.only_receive()
            await all_received(broker, book)
            assert await asyncio.to_thread(broker.stop) == 0
        for queue in QUEUES:
            assert check_history(book.logs[queue]) == [], f"with seed {seed}"
            assert sum(isinstance(each, Acknowledged) for each in book.logs[queue]) > 500
        assert PASSWORD not in broker.log


@pytest.mark.spec("R1.2")
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(0, marks=pytest.mark.timeout(240)),
        pytest.param(20, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_every_front_end_follows_a_store_from_server_to_server(
    kills: int, shared_postgres: PostgresServer, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    with ExitStack() as stack:
        before, beside, after = (
            stack.enter_context(shared_postgres.lent_database()) for _ in range(3)
        )
        brokers: list[BrokerProcess] = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            broker = BrokerProcess(tmp_path / name, CONFIG, stores=[before, beside])
            stack.callback(broker.kill)
            await asyncio.to_thread(broker.start)
            brokers.append(broker)
        one, two = brokers
        load = Load(book, rng)
        async with load.running(lambda: rng.choice(brokers).amqp_port):
            await book.at(ENTRIES_BEFORE, lambda: None)
            for _ in range(kills):
                moving = asyncio.create_task(asyncio.to_thread(move, one, 0, after))
                await book.kill_after(rng.randint(1, ENTRIES_OF_MOVE_MAX), one)
                await moving
                await asyncio.to_thread(one.start)
            said = await asyncio.to_thread(move, two, 0, after)
            # Perhaps it was done before the kill.
            assert "store 0 is at postgresql://" in said or "is store 0;" in said, said
            await book.at(ENTRIES_BEFORE, lambda: None)
            load.only_receive()
            await all_received(two, book)
            for broker in brokers:
                assert await asyncio.to_thread(broker.stop) == 0
        for queue in QUEUES:
            assert check_history(book.logs[queue]) == [], f"with seed {seed}"
        assert all(PASSWORD not in broker.log for broker in brokers)
        assert "list that one at the next start" in two.log


def move(broker: BrokerProcess, number: int, url: str) -> str:
    """Run the command; return what it said."""
    done = run(
        *("store", "move", str(number), url),
        BENDYBUS_CONNECTION_STRING=broker.connection_string(),
        BENDYBUS_MANAGEMENT_URL=broker.management_url,
    )
    assert PASSWORD not in f"{done.stdout}{done.stderr}"
    return done.stdout or done.stderr


def is_moved(broker: BrokerProcess, number: int) -> bool:
    return (broker.folder / "data" / f"store-{number:02}.url").exists()


def check_folder(data: Path, urls: list[str]) -> None:
    for number, url in enumerate(urls):
        place = data / f"store-{number:02}.url"
        assert place.read_text() == f"{url}\n"
        assert place.stat().st_mode & 0o77 == 0
        assert not (data / f"store-{number:02}.db").exists()
        assert (data / f"store-{number:02}.db.moved").exists()


async def all_received(broker: BrokerProcess, book: Logbook) -> None:
    """Wait until nothing is left in any queue, nor in a store that is away for a moment.

    What was acknowledged and is not seen for long is lost, as the checker will say.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + AWAY_SECONDS_MAX
    async with (
        asyncio.timeout(SECONDS_MAX),
        AsyncClient.from_connection_string(broker.connection_string()) as client,
    ):
        for queue in QUEUES:
            receiver = client.receiver(queue)
            while True:
                is_empty = not await receiver.peek(1)
                if is_empty and (not is_missing(book, queue) or now() > deadline):
                    break
                await asyncio.sleep(POLL_SECONDS)


def is_missing(book: Logbook, queue: str) -> bool:
    """Say whether something that was acknowledged has not been received yet."""
    return any(each.rule is Rule.NOTHING_IS_LOST for each in check_history(book.logs[queue]))
