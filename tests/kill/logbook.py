"""What the clients of a broker saw that is killed again and again."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.history_checker import Acknowledged, Completed, Entry, Received

LIFE_SECONDS_MAX: Final = 60


class Entries:
    """Counts what clients write down, and does something at a certain entry."""

    def __init__(self) -> None:
        self._entries_left = 0
        self._action: Callable[[], None] | None = None

    def count_entry(self) -> None:
        """Note that something was written down."""
        self._entries_left -= 1
        if self._entries_left <= 0 and self._action is not None:
            action, self._action = self._action, None
            action()

    async def kill_after(self, entries: int, broker: BrokerProcess) -> None:
        """Let the clients work, and kill the broker in the midst of their so-manieth entry."""
        await self.at(entries, broker.kill)

    async def at(self, entries: int, action: Callable[[], None]) -> None:
        """Let the clients work, and do something in the midst of their so-manieth entry."""
        done = asyncio.Event()

        def act() -> None:
            action()
            done.set()

        self._entries_left, self._action = entries, act
        async with asyncio.timeout(LIFE_SECONDS_MAX):
            await done.wait()


class Logbook(Entries):
    """What all clients saw, queue by queue."""

    def __init__(self, queues: Iterable[str]) -> None:
        super().__init__()
        self.logs: dict[str, list[Entry]] = {queue: [] for queue in queues}
        self.completed: dict[str, set[int]] = {queue: set() for queue in self.logs}
        self.acknowledged: dict[str, int] = dict.fromkeys(self.logs, 0)

    def write(self, queue: str, entry: Entry) -> None:
        """Note what a client saw."""
        self.logs[queue].append(entry)
        if isinstance(entry, Completed):
            self.completed[queue].add(entry.sequence)
        elif isinstance(entry, Acknowledged):
            self.acknowledged[queue] += 1
        self.count_entry()

    def missing(self) -> int:
        """Count the messages that were accepted and have not been received."""
        count = 0
        for log in self.logs.values():
            accepted = {each.message for each in log if isinstance(each, Acknowledged)}
            count += len(accepted - {each.message for each in log if isinstance(each, Received)})
        return count
