"""Three front ends over two PostgreSQL servers.

Between each front end and each server is a network of its own, so that one may lose what the
others still reach.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.cut_network import CutNetwork, cut_network
from bendybus.testing.postgres import PostgresServer, postgres_server, url_of

FRONT_ENDS: Final = 3
SERVERS: Final = 2


class Fleet:
    """The parts, and which front ends clients are sent to."""

    def __init__(
        self,
        servers: Sequence[PostgresServer],
        networks: Sequence[Sequence[CutNetwork]],
        front_ends: Sequence[BrokerProcess],
        stores: Sequence[str],
    ) -> None:
        self.servers = servers
        # Of each front end one to each server.
        self.networks = networks
        self.front_ends = front_ends
        # The URLs of the stores, past the networks.
        self.stores = stores
        self._shunned: set[BrokerProcess] = set()

    def choose(self, rng: random.Random) -> int:
        """Return the port of a front end, as a balancer does that looks after their health."""
        healthy = [each for each in self.front_ends if each not in self._shunned]
        return rng.choice(healthy).amqp_port

    def shun(self, front_end: BrokerProcess) -> None:
        """Send no clients there."""
        self._shunned.add(front_end)

    def welcome(self, front_end: BrokerProcess) -> None:
        """Send clients there again."""
        self._shunned.discard(front_end)

    async def stop(self) -> None:
        """Stop all front ends, which must end well."""
        codes = await asyncio.gather(*(asyncio.to_thread(each.stop) for each in self.front_ends))
        assert codes == [0] * len(codes)


@asynccontextmanager
async def fleet_of(config: Path, folder: Path) -> AsyncIterator[Fleet]:
    """Run servers, networks and front ends while the block runs."""
    with ExitStack() as stack:
        servers = [stack.enter_context(postgres_server()) for _ in range(SERVERS)]
        names = [server.make_database() for server in servers]
        networks = [
            [stack.enter_context(cut_network(server.port)) for server in servers]
            for _ in range(FRONT_ENDS)
        ]
        stores = [
            [url_of([network.port], name) for network, name in zip(own, names, strict=True)]
            for own in networks
        ]
        front_ends = await started(stack, config, folder, stores)
        urls = [server.url(name) for server, name in zip(servers, names, strict=True)]
        yield Fleet(servers, networks, front_ends, urls)


async def started(
    stack: ExitStack, config: Path, folder: Path, stores: Sequence[Sequence[str]]
) -> list[BrokerProcess]:
    """Start front ends on these stores, all at once: whoever is first makes the tables."""
    front_ends = []
    for number, urls in enumerate(stores):
        own = folder / f"front-end-{number}"
        own.mkdir()
        front_ends.append(BrokerProcess(own, config, stores=urls))
        stack.callback(front_ends[-1].kill)
    await asyncio.gather(*(asyncio.to_thread(each.start) for each in front_ends))
    return front_ends
