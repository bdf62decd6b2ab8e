"""Parts of a fleet fail among sessions, whose clients come by one address, and all is judged."""

import asyncio
import random
from pathlib import Path

import pytest

from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.cut_network import cut_network
from tests.kill.fleet import Fleet, fleet_of
from tests.kill.stored_messages import catalog_of, left_in
from tests.kill.test_sessions_killed import CONFIG, QUEUES, Book, judge, start_clients

ENTRIES_BETWEEN_MAX = 500
ENTRIES_MEANWHILE = 50


@pytest.mark.spec("R3.6")
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(30, marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
    ],
)
async def test_sessions_keep_order_holder_and_state_over_many_front_ends(
    faults: int, tmp_path: Path
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Book()
    async with fleet_of(CONFIG, tmp_path) as fleet:
        with cut_network(*(each.amqp_port for each in fleet.front_ends)) as network:
            address = BrokerProcess(tmp_path, CONFIG)
            address.amqp_port = network.port
            async with asyncio.TaskGroup() as group:
                workers = start_clients(group, address, book, rng)
                for number in range(faults):
                    await book.at(rng.randint(1, ENTRIES_BETWEEN_MAX), lambda: None)
                    await fail(fleet, number % 3, book, rng)
                book.is_sending = False
                await book.drained()
                for worker in workers:
                    worker.is_over = True
        await fleet.stop()
        async with catalog_of(fleet.stores) as catalog:
            left = {queue: await left_in(catalog, queue) for queue in QUEUES}
    for queue in QUEUES:
        judge(book.logs[queue], left[queue], f"with seed {seed}")


async def fail(fleet: Fleet, kind: int, book: Book, rng: random.Random) -> None:
    """Let a front end be killed, a server stop, or a front end lose a server, for a while."""
    front_end, server = rng.choice(fleet.front_ends), rng.choice(fleet.servers)
    network = rng.choice(rng.choice(fleet.networks))
    begin, end = [
        (front_end.kill, front_end.start),
        (server.stop, server.start),
        (network.cut, network.restore),
    ][kind]
    await asyncio.to_thread(begin)
    await book.at(ENTRIES_MEANWHILE, lambda: None)
    await asyncio.to_thread(end)
