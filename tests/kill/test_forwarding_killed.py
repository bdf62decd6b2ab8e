"""The broker is killed while it forwards, and what its clients saw at both ends is judged."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.broker.clock import SystemClock
from bendybus.client import AsyncClient
from bendybus.model.operations import Transfer
from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import Acknowledged, check_history
from tests.kill.load_client import LoadReceiver, LoadSender
from tests.kill.logbook import Logbook
from tests.kill.stored_messages import everything_in, opened

CONFIG: Final = Path(__file__).with_name("forwarding.yaml")
WAYS: Final = ("one", "many")
KEYS: Final = [*map(str, range(20)), *[None] * 20]
ENTRIES_PER_LIFE_MAX: Final = 3000
# As many kills as were asked for, and then more until one has cut something off.
LIVES_PER_KILL_MAX: Final = 10
# How long nothing may arrive while something is missing: several times what a lock lasts.
STALL_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.1


class Load:
    """Two senders at the beginning and two receivers at the end of each way."""

    def __init__(self, book: Logbook, rng: random.Random) -> None:
        self.senders: list[LoadSender] = []
        self.receivers: list[LoadReceiver] = []
        for way in WAYS:
            write = partial(book.write, way)
            for number in range(2):
                name = f"{way}-{number}"
                self.senders.append(LoadSender(name, f"{way}.in", write, KEYS, rng))
                self.receivers.append(LoadReceiver(name, f"{way}.out", write, rng))

    @asynccontextmanager
    async def running(self, port: int) -> AsyncIterator[None]:
        """Keep the clients connected while the block runs; they end with the broker."""
        clients = (*self.senders, *self.receivers)
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run(port))
            yield
            for client in clients:
                client.stop()


@pytest.mark.spec("R6")
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(4, "files", marks=pytest.mark.timeout(240)),
        pytest.param(100, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(5, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_forwarded_messages_arrive_once_and_in_order_when_the_broker_is_killed(
    kills: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(WAYS)
    on_their_way = 0
    with broker_process(CONFIG, stores=stores) as broker:
        load = Load(book, rng)
        async with load.running(broker.amqp_port):
            for life in range(LIVES_PER_KILL_MAX * kills):
                if life >= kills and on_their_way:
                    break
                await book.kill_after(rng.randint(1, ENTRIES_PER_LIFE_MAX), broker)
                on_their_way += await transfers_cut_off(broker)
                await asyncio.to_thread(broker.start)
            for sender in load.senders:
                sender.is_sending = False
            for receiver in load.receivers:
                receiver.is_settling_all = True
            await all_received(book)
            await all_left(broker)
            assert await asyncio.to_thread(broker.stop) == 0
        for way in WAYS:
            log = [*book.logs[way], *await everything_in(broker, f"{way}.out")]
            assert check_history(log) == [], f"with seed {seed}"
            # Lives are of any length, so a run can be short; there was work in it all the same.
            assert sum(isinstance(each, Acknowledged) for each in log) > 25 * kills
    assert on_their_way, "no kill cut off a transfer"


async def transfers_cut_off(broker: BrokerProcess) -> int:
    """Count the messages that had arrived and were still where they came from."""
    clock = SystemClock()
    async with opened(broker, clock) as local:
        found = [
            await store.transfers(after=Transfer(0, 0), made_until=clock.now(), count_max=1000)
            for store in local.stores
        ]
    return sum(map(len, found))


async def all_received(book: Logbook) -> None:
    """Wait until everything that was accepted has come out."""
    missing, deadline = -1, 0.0
    while missing:
        before, missing = missing, book.missing()
        now = asyncio.get_running_loop().time()
        if missing != before:
            deadline = now + STALL_SECONDS_MAX
        assert now < deadline, f"{missing} messages do not come out"
        await asyncio.sleep(POLL_SECONDS)


async def all_left(broker: BrokerProcess) -> None:
    """Wait until nothing is on its way: what was never accepted may be there as well."""
    async with (
        asyncio.timeout(STALL_SECONDS_MAX),
        AsyncClient.from_connection_string(broker.connection_string()) as client,
    ):
        for queue in (f"{way}.{place}" for place in ("in", "by.way") for way in WAYS):
            receiver = client.receiver(queue)
            while True:
                if not await receiver.peek(1):
                    break
                await asyncio.sleep(POLL_SECONDS)
