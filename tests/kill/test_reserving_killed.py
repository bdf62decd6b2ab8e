"""A reader and ordinary receivers compete for a queue while its broker is killed again and again.

Each message goes to one side, and what the reader has reserved reads back the same until it is
done with it, whatever was killed when.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import pytest

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place, Positions
from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Received,
    check_history,
)
from tests.kill.load import QUEUES, Load
from tests.kill.load_client import BODY_REPEATS, Write
from tests.kill.logbook import Logbook
from tests.kill.stored_messages import everything_in
from tests.kill.test_kill import CONFIG, drained

READER: Final = "capture"
COLUMNS: Final = ("sequence_number", "message_id", "delivery_count", "body")
RESERVED_MAX: Final = 500
PAUSE_SECONDS: Final = 0.02
SECONDS_MAX: Final = 120
# How many entries of the log pass, at most, between a start and the next kill.
ENTRIES_PER_LIFE_MAX: Final = 2000
# Lives that short may pass while a reader waits before it tries again: so many in a row, and then
# one lasts until each reader has had an answer.
SHORT_LIVES: Final = 4
SENT_FIRST: Final = 2000


class Row(NamedTuple):
    """A message as the reader read it."""

    sequence: int
    message: str
    delivery_count: int
    body: bytes


class CompetingReader:
    """Reserves, reads, reads again, commits; and goes on over every kill."""

    def __init__(self, broker: BrokerProcess, queue: str, write: Write, rng: random.Random) -> None:
        endpoint = f"grpc://localhost:{broker.flight_port}"
        self._client = BulkClient(
            broker.connection_string(), endpoint, patience_seconds=SECONDS_MAX
        )
        self._place = Place(queue)
        self._token = f"token of {queue}"
        self._write = write
        self._rng = rng
        self._committed: dict[int, int] = {}
        # What was read of each stretch of positions, until it is committed.
        self._held: list[tuple[list[Positions], list[Row]]] = []
        self.is_stopping = self.has_ended = False
        self.rows_read = self.rows_read_again = self.answers = 0

    async def run(self) -> None:
        """Work until stopped, and then be done with everything."""
        await asyncio.to_thread(self._client.open_reader, self._place, READER, self._token)
        while not self.is_stopping or self._held:
            await self._take_more()
            await self._read_again()
            if self.is_stopping or self._rng.random() < 0.5:
                await self._commit()
            await asyncio.sleep(PAUSE_SECONDS)
        self._client.close()
        self.has_ended = True

    async def _take_more(self) -> None:
        before = self._end
        made = await asyncio.to_thread(
            partial(
                self._client.reserve,
                self._place,
                READER,
                self._token,
                before,
                messages_max=RESERVED_MAX,
            )
        )
        self.answers += 1
        parts = [
            Positions(fragment, before.get(fragment, 0), end)
            for fragment, end in made.end.items()
            if end > before.get(fragment, 0)
        ]
        if not parts:
            return
        rows = await self._read(parts)
        assert len(rows) == made.messages
        for row in rows:
            assert row.body == f"<{row.message}>".encode() * BODY_REPEATS
            self._write(Received(row.message, row.sequence, row.delivery_count, READER))
        self._held.append((parts, rows))
        self.rows_read += len(rows)

    async def _read_again(self) -> None:
        if self._held:
            parts, rows = self._rng.choice(self._held)
            assert await self._read(parts) == rows, "it reads back otherwise"
            self.rows_read_again += len(rows)

    async def _commit(self) -> None:
        if not self._held:
            return
        parts, rows = self._held[0]
        for row in rows:
            self._write(CompletionAsked(row.sequence))
        until = {each.fragment: each.until for each in parts}
        await asyncio.to_thread(self._client.commit, self._place, READER, self._token, until)
        for row in rows:
            self._write(Completed(row.sequence))
        del self._held[0]
        self._committed |= until

    async def _read(self, parts: list[Positions]) -> list[Row]:
        def read() -> list[Row]:
            batches = self._client.read_reserved(
                self._place, READER, self._token, parts, columns=COLUMNS
            )
            rows = [
                Row(*(batch.column(name)[at].as_py() for name in COLUMNS))
                for batch in batches
                for at in range(batch.num_rows)
            ]
            return sorted(rows)

        return await asyncio.to_thread(read)

    @property
    def _end(self) -> dict[int, int]:
        ends = dict(self._committed)
        for parts, _ in self._held:
            ends |= {each.fragment: each.until for each in parts}
        return ends


async def kill_all_along(
    broker: BrokerProcess,
    book: Logbook,
    kills: int,
    rng: random.Random,
    readers: Sequence[CompetingReader],
) -> None:
    """Kill the broker so many times, and leave it dead."""
    for number in range(kills):
        if number % SHORT_LIVES == 0:
            goals = [reader.answers + 1 for reader in readers]
            await until(lambda: all(r.answers >= g for r, g in zip(readers, goals, strict=True)))  # noqa: B023 - awaited here
        await book.kill_after(rng.randint(1, ENTRIES_PER_LIFE_MAX), broker)
        await asyncio.to_thread(broker.start)
    await book.kill_after(ENTRIES_PER_LIFE_MAX, broker)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            if is_so():
                return
            await asyncio.sleep(PAUSE_SECONDS)


def count_sent(book: Logbook, queue: str) -> int:
    return sum(isinstance(entry, Acknowledged) for entry in book.logs[queue])


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(4, "files", marks=pytest.mark.timeout(300)),
        pytest.param(100, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(5, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_each_message_goes_to_the_reader_or_to_a_receiver(
    kills: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    book = Logbook(QUEUES)
    with broker_process(CONFIG, has_flight=True, stores=stores) as broker:
        load = Load(book, rng)
        readers = [
            CompetingReader(broker, queue, partial(book.write, queue), rng) for queue in QUEUES
        ]
        async with asyncio.TaskGroup() as clients, asyncio.TaskGroup() as reading:
            for sender in load.senders:
                clients.create_task(sender.run(broker.amqp_port))
            await until(lambda: all(count_sent(book, queue) > SENT_FIRST for queue in QUEUES))
            for reader in readers:
                reading.create_task(reader.run())
            # Receivers that are always there would leave it nothing.
            await until(lambda: all(reader.rows_read for reader in readers))
            for receiver in load.receivers:
                clients.create_task(receiver.run(broker.amqp_port))
            await kill_all_along(broker, book, kills, rng, readers)
            load.only_receive()
            held = {queue: await everything_in(broker, queue) for queue in QUEUES}
            await asyncio.to_thread(broker.start)
            for reader in readers:
                reader.is_stopping = True
            await drained(book, held)
            await until(lambda: all(reader.has_ended for reader in readers))
            for client in (*load.senders, *load.receivers):
                client.stop()
            assert await asyncio.to_thread(broker.stop) == 0
        for queue, reader in zip(QUEUES, readers, strict=True):
            log = book.logs[queue]
            log += await everything_in(broker, queue)
            assert check_history(log) == [], f"with seed {seed}"
            assert reader.rows_read, "the reader had nothing"
            assert reader.rows_read_again, "nothing was read again"
            others = [each for each in log if isinstance(each, Received)]
            assert any(each.receiver != READER for each in others), "the receivers had nothing"
