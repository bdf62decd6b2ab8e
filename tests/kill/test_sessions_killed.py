"""The broker is killed among sessions, and what their holders saw is judged."""

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Left,
    Received,
    Sent,
    check_history,
)
from bendybus.testing.session_checker import Accepted, SessionEntry, check_sessions
from tests.kill.logbook import Entries
from tests.kill.session_client import SessionSender, SessionWorker
from tests.kill.stored_messages import everything_in

CONFIG: Final = Path(__file__).with_name("sessions.yaml")
QUEUES: Final = ("conventional", "partitioned")
SESSIONS_PER_SENDER: Final = 12
SENDERS: Final = 2
WORKERS: Final = 3
ENTRIES_PER_LIFE_MAX: Final = 1500
# How long nothing may come while something is there: several times what a lock lasts.
STALL_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.1


class Book(Entries):
    """What all clients saw, queue by queue."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, list[SessionEntry]] = {queue: [] for queue in QUEUES}
        self.waiting: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self.is_sending = True
        self._done: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self._names: dict[str, dict[int, str]] = {queue: {} for queue in QUEUES}

    def write(self, queue: str, entry: SessionEntry) -> None:
        self.logs[queue].append(entry)
        match entry:
            # It may be received before its sender learns that it was accepted.
            case Acknowledged(message) if message not in self._done[queue]:
                self.waiting[queue].add(message)
            case Received(message, sequence):
                self._names[queue][sequence] = message
            case CompletionAsked(sequence):
                self._done[queue].add(self._names[queue][sequence])
                self.waiting[queue].discard(self._names[queue][sequence])
            case _:
                pass
        self.count_entry()

    def backlog(self, queue: str) -> int | None:
        return len(self.waiting[queue]) if self.is_sending else None

    async def drained(self) -> None:
        """Wait until every message that was accepted has been completed, or asked to be."""
        before, deadline = -1, 0.0
        while left := sum(map(len, self.waiting.values())):
            now = asyncio.get_running_loop().time()
            if left != before:
                before, deadline = left, now + STALL_SECONDS_MAX
            assert now < deadline, f"do not come: {self.waiting}"
            await asyncio.sleep(POLL_SECONDS)


@pytest.mark.spec("R3.6")
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(3, "files", marks=pytest.mark.timeout(240)),
        pytest.param(100, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(5, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_sessions_keep_order_holder_and_state_when_the_broker_is_killed(
    kills: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Book()
    with broker_process(CONFIG, stores=stores) as broker:
        async with asyncio.TaskGroup() as group:
            workers = start_clients(group, broker, book, rng)
            for _ in range(kills):
                await book.kill_after(rng.randint(1, ENTRIES_PER_LIFE_MAX), broker)
                await asyncio.to_thread(broker.start)
            book.is_sending = False
            await book.drained()
            for worker in workers:
                worker.is_over = True
        assert await asyncio.to_thread(broker.stop) == 0
        left = {queue: await everything_in(broker, queue) for queue in QUEUES}
    for queue in QUEUES:
        judge(book.logs[queue], left[queue], f"with seed {seed}")


def start_clients(
    group: asyncio.TaskGroup, broker: BrokerProcess, book: Book, rng: random.Random
) -> list[SessionWorker]:
    """Start senders and workers for each queue; return those that must be told when it is over."""
    workers: list[SessionWorker] = []
    for queue in QUEUES:
        write = partial(book.write, queue)
        for number in range(SENDERS):
            sessions = [f"s{number}x{each}" for each in range(SESSIONS_PER_SENDER)]
            sender = SessionSender(broker, queue, write, rng)
            group.create_task(sender.run(sessions, partial(book.backlog, queue)))
        for number in range(WORKERS):
            worker = SessionWorker(broker, queue, write, rng)
            workers.append(worker)
            group.create_task(worker.run(f"w{number}"))
    return workers


def judge(log: list[SessionEntry], left: list[Left], hint: str) -> None:
    whole = [*log, *left]
    messages = [
        entry
        for entry in whole
        if isinstance(entry, Sent | Acknowledged | Received | CompletionAsked | Completed | Left)
    ]
    assert check_history(messages) == [], hint
    assert check_sessions(whole) == [], hint
    # A history in which nothing went wrong would prove nothing.
    counts = [entry.delivery_count for entry in log if isinstance(entry, Received)]
    assert any(counts), "nothing was ever received again"
    assert len([entry for entry in log if isinstance(entry, Accepted)]) > SESSIONS_PER_SENDER
