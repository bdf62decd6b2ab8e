"""Two senders and two receivers for each queue, and what must be true of what they saw."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Entry,
    Received,
    Sent,
)
from tests.kill.load_client import Link, LoadReceiver, LoadSender
from tests.kill.logbook import Logbook

# As in `namespace.yaml`.
QUEUES: Final = ("conventional", "partitioned")
# So many meet everything.
MANY_FAULTS: Final = 6


class Load:
    """All the clients."""

    def __init__(self, book: Logbook, rng: random.Random) -> None:
        self.senders: list[LoadSender] = []
        self.receivers: list[LoadReceiver] = []
        for queue in QUEUES:
            # On a conventional queue the order holds whatever the key, so there is only one.
            keys: list[str | None] = ["all"]
            if queue == "partitioned":
                keys = [*map(str, range(20)), *[None] * 20]
            write = partial(book.write, queue)
            for number in range(2):
                name = f"{queue}-{number}"
                self.senders.append(LoadSender(name, queue, write, keys, rng))
                self.receivers.append(LoadReceiver(name, queue, write, rng))

    @asynccontextmanager
    async def running(self, choose: Callable[[], int]) -> AsyncIterator[None]:
        """Keep the clients connected while the block runs; they end with their broker."""
        async with asyncio.TaskGroup() as group:
            for client in (*self.senders, *self.receivers):
                group.create_task(client.roam(choose))
            yield
            for client in (*self.senders, *self.receivers):
                client.stop()

    def at(self, port: int) -> list[Link]:
        """Return those who are connected there."""
        return [client for client in (*self.senders, *self.receivers) if client.port == port]

    def move_from(self, port: int) -> None:
        """Let those who are connected there go elsewhere."""
        for client in self.at(port):
            client.move()

    def only_receive(self) -> None:
        """Send no more, and settle everything at once."""
        for sender in self.senders:
            sender.is_sending = False
        for receiver in self.receivers:
            receiver.is_settling_all = True


def check_that_it_was_hard(log: list[Entry], *, faults: int) -> None:
    """A history in which nothing went wrong would prove nothing.

    Many faults meet everything that can be under way; few meet some of it.
    """
    sent = [entry.message for entry in log if isinstance(entry, Sent)]
    acknowledged = [entry for entry in log if isinstance(entry, Acknowledged)]
    asked = [entry for entry in log if isinstance(entry, CompletionAsked)]
    completed = [entry for entry in log if isinstance(entry, Completed)]
    met = {
        "a send was cut off": len(sent) > len(acknowledged),
        "a completion was cut off": len(asked) > len(completed),
        "a lock was left": any(
            isinstance(each, Received) and each.delivery_count > 0 for each in log
        ),
    }
    assert len(acknowledged) > 1000
    assert all(met.values()) if faults >= MANY_FAULTS else any(met.values()), met
