"""The broker is killed while messages wait for their time: each comes once, and none before it."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from bendybus.client import AsyncClient, Message
from bendybus.client.errors import ClientError
from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.schedule_checker import (
    Came,
    CancelAsked,
    Cancelled,
    ScheduleAsked,
    Scheduled,
    ScheduleEntry,
    check_schedules,
)
from tests.kill.stored_messages import everything_in

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
QUEUES: Final = ("conventional", "partitioned")
TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.02
DELAY_MS_MAX: Final = 3000
TOGETHER_MAX: Final = 10
WAITING_MAX: Final = 400
ENTRIES_PER_LIFE_MAX: Final = 800
LIFE_SECONDS_MAX: Final = 60
# How long nothing may come while something is there: several times what a lock lasts.
STALL_SECONDS_MAX: Final = 30


class Book:
    """What all clients saw, and something to be done at a certain entry."""

    def __init__(self) -> None:
        self.log: list[ScheduleEntry] = []
        self.waiting: set[str] = set()
        self.is_scheduling = True
        self.is_over = False
        self.cut_off = 0
        # Messages that came or were given up.
        self._settled: set[str] = set()
        self._entries_left = 0
        self._action: Callable[[], None] | None = None

    def write(self, entry: ScheduleEntry) -> None:
        self.log.append(entry)
        match entry:
            # It may come before its sender learns that it was accepted.
            case Scheduled(message) if message not in self._settled:
                self.waiting.add(message)
            case CancelAsked(message) | Came(message):
                self._settled.add(message)
                self.waiting.discard(message)
            case _:
                pass
        self._entries_left -= 1
        if self._entries_left <= 0 and self._action is not None:
            action, self._action = self._action, None
            action()

    async def kill_after(self, entries: int, broker: BrokerProcess) -> None:
        """Let the clients work, and kill the broker in the midst of their so-manieth entry."""
        killed = asyncio.Event()

        def kill() -> None:
            broker.kill()
            killed.set()

        self._entries_left, self._action = entries, kill
        async with asyncio.timeout(LIFE_SECONDS_MAX):
            await killed.wait()

    async def all_came(self) -> None:
        """Wait until everything that was accepted has come."""
        before, deadline = -1, 0.0
        while left := len(self.waiting):
            now = asyncio.get_running_loop().time()
            if left != before:
                before, deadline = left, now + STALL_SECONDS_MAX
            assert now < deadline, f"do not come: {self.waiting}"
            await asyncio.sleep(PAUSE_SECONDS)


class Planner:
    """Schedules messages, by the request that tells their numbers or as they are sent."""

    def __init__(self, client: AsyncClient, queue: str, book: Book, rng: random.Random) -> None:
        self._sender = client.sender(queue)
        self._queue = queue
        self._book = book
        self._rng = rng
        self._count = 0

    async def run(self) -> None:
        while self._book.is_scheduling:
            if len(self._book.waiting) > WAITING_MAX:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            try:
                await self._plan()
            except ClientError:
                self._book.cut_off += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _plan(self) -> None:
        due_at = round(time.time() * 1000) + self._rng.randint(1, DELAY_MS_MAX)
        due = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=due_at)
        # One key, so that they are in one fragment, and all of them are stored or none is.
        key = str(self._rng.randint(1, 20))
        names = [self._name() for _ in range(self._rng.randint(1, TOGETHER_MAX))]
        messages = [
            Message(f"<{name}>".encode(), partition_key=key, scheduled_time=due) for name in names
        ]
        for name in names:
            self._book.write(ScheduleAsked(name, due_at))
        if self._rng.random() < 0.5:
            await self._sender.send_batch(messages)
            numbers: list[int] = []
        else:
            numbers = await self._sender.schedule(messages)
        for name in names:
            self._book.write(Scheduled(name))
        if numbers and self._rng.random() < 0.5:
            await self._cancel(names[0], numbers[0])

    async def _cancel(self, name: str, number: int) -> None:
        self._book.write(CancelAsked(name))
        await self._sender.cancel_scheduled([number])
        self._book.write(Cancelled(name))

    def _name(self) -> str:
        self._count += 1
        return f"{self._queue}-{self._count}"


async def receive(client: AsyncClient, queue: str, book: Book) -> None:
    """Receive and complete until it is over."""
    receiver = client.receiver(queue)
    while not book.is_over:
        try:
            messages = await receiver.receive(TOGETHER_MAX, PAUSE_SECONDS)
            now = round(time.time() * 1000)
            for message in messages:
                assert isinstance(message.body, bytes)
                assert message.sequence_number is not None
                book.write(Came(message.body.decode().strip("<>"), message.sequence_number, now))
            await receiver.complete(messages)
        except ClientError:
            book.cut_off += 1
            await asyncio.sleep(PAUSE_SECONDS)


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(3, "files", marks=pytest.mark.timeout(240)),
        pytest.param(100, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(5, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_scheduled_messages_come_once_and_in_time_when_the_broker_is_killed(
    kills: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Book()
    with broker_process(CONFIG, stores=stores) as broker:
        async with asyncio.TaskGroup() as group:
            for queue in QUEUES:
                for role in (plan_with, receive_with):
                    group.create_task(role(broker, queue, book, rng))
            for _ in range(kills):
                await book.kill_after(rng.randint(1, ENTRIES_PER_LIFE_MAX), broker)
                await asyncio.to_thread(broker.start)
            book.is_scheduling = False
            await book.all_came()
            book.is_over = True
        assert await asyncio.to_thread(broker.stop) == 0
        left = [each for queue in QUEUES for each in await everything_in(broker, queue)]
    assert check_schedules(book.log) == [], f"with seed {seed}"
    came = {entry.message for entry in book.log if isinstance(entry, Came)}
    gone = {entry.message for entry in book.log if isinstance(entry, Cancelled)}
    assert not {entry.message for entry in left} & gone, "cancelled, and still there"
    assert len(came) > 50 * kills, "hardly anything came"
    assert gone, "nothing was cancelled"
    assert book.cut_off, "no kill cut anything off"


async def plan_with(broker: BrokerProcess, queue: str, book: Book, rng: random.Random) -> None:
    async with connected(broker) as client:
        await Planner(client, queue, book, rng).run()


async def receive_with(broker: BrokerProcess, queue: str, book: Book, _: random.Random) -> None:
    async with connected(broker) as client:
        await receive(client, queue, book)


def connected(broker: BrokerProcess) -> AsyncClient:
    return AsyncClient.from_connection_string(broker.connection_string(), timeout=TIMEOUT_SECONDS)
