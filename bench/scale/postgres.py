"""One PostgreSQL store beside what its server does for plain INSERTs.

All commit as many messages at a time, one commit after the other, over one session, on databases
of one server that syncs each commit. There are two ways to insert plainly: psycopg's own for a
batch, `executemany`; and one statement with a row of values per message, prepared once.
"""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, Self

import psycopg

from bench.features.stage import Stage, in_turns
from bench.processes import BenchmarkError, CpuShares, cpu_seconds, with_cpu_shares
from bench.readings import Figure, Reading, Subject
from bench.scale.stores import MAIN, ROOMY, opened, receive, send
from bench.scenarios import SMALL_BODY_BYTES, Turn
from bench.subject_bendybus import KINDS, Bendybus, Entities
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.store.postgres.store import PostgresStore
from bendybus.testing.postgres import postgres_server

TOGETHER = 200
# All messages of a conventional queue are in one store.
QUEUE = "conventional"
SENDING = (Figure.SEND, Figure.FRONT_END_SEND_CPU, Figure.SERVER_SEND_CPU)
RECEIVING = (Figure.RECEIVE, Figure.FRONT_END_RECEIVE_CPU, Figure.SERVER_RECEIVE_CPU)
PLAIN_TABLE = """
    CREATE TABLE plain (
        id bigint PRIMARY KEY, enqueued_at bigint NOT NULL, content bytea NOT NULL)"""
PLAIN_INSERT = b"INSERT INTO plain (id, enqueued_at, content) VALUES "
PLAIN_ROW = b"(%s::bigint, %s::bigint, %s)"
ONE_ROW = PLAIN_INSERT + PLAIN_ROW
MANY_ROWS = PLAIN_INSERT + b", ".join([PLAIN_ROW] * TOGETHER)


Connection = psycopg.Connection[tuple[Any, ...]]
Rows = list[tuple[int, int, bytes]]
Insert = Callable[[Connection, Rows], None]


def one_store(stage: Stage) -> Iterator[Reading]:
    """Insert plainly, send, receive and settle, in turns."""
    amounts = stage.size.scale
    with (
        postgres_server() as server,
        server.lent_database() as url,
        server.lent_database() as other,
        _plain(other) as connection,
        _Store(url) as store,
    ):
        # Statements are prepared, tables and files made.
        _insert(connection, 10 * TOGETHER, _many_rows)
        _insert(connection, 10 * TOGETHER, _row_by_row)
        store.pass_through(10 * TOGETHER)
        yield from in_turns(
            amounts.repeats,
            lambda _: _inserted(connection, amounts.messages),
            lambda _: store.readings(amounts.messages),
        )


def one_front_end(stage: Stage) -> Iterator[Reading]:
    """The same server behind a broker: one client over AMQP sends, then receives."""
    entities = Entities({QUEUE: KINDS[QUEUE]})
    with (
        postgres_server() as server,
        server.lent_database() as url,
        Bendybus(entities, ("--store", url)).running(stage.folder / "front-end") as broker,
    ):
        turn = Turn(stage.clients, broker, QUEUE, stage.size)
        turn.warm_up()
        for _ in range(stage.size.scale.repeats):
            yield from _measured(turn.send, SENDING, turn, server.pid)
            yield from _measured(turn.receive, RECEIVING, turn, server.pid)
            stage.clients.drain(broker, QUEUE)


def _measured(
    call: Callable[[int], float], figures: tuple[Figure, Figure, Figure], turn: Turn, server: int
) -> Iterator[Reading]:
    """The rate, and what a message costs front end and server: that bounds each, on any machine."""
    messages = turn.size.scale.messages
    of_rate, of_front_end, of_server = figures
    front_end_before, server_before = cpu_seconds(turn.broker.pid), cpu_seconds(server)
    rate, cpu = with_cpu_shares(turn.broker.pid, partial(call, messages))
    front_end = cpu_seconds(turn.broker.pid) - front_end_before
    yield _reading(of_rate, rate, cpu)
    yield _reading(of_front_end, front_end / messages * 1e6)
    yield _reading(of_server, (cpu_seconds(server) - server_before) / messages * 1e6)


def _reading(figure: Figure, rate: float, cpu: CpuShares | None = None) -> Reading:
    return Reading(Subject(figure, "bendybus postgresql", SMALL_BODY_BYTES), rate, cpu)


@contextmanager
def _plain(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(PLAIN_TABLE)
        yield connection


def _inserted(connection: Connection, messages: int) -> Iterator[Reading]:
    yield _reading(Figure.PLAIN_INSERT, _insert(connection, messages, _row_by_row))
    yield _reading(Figure.PLAIN_VALUES, _insert(connection, messages, _many_rows))


def _insert(connection: Connection, messages: int, insert: Insert) -> float:
    """Messages per second."""
    [(first,)] = connection.execute("SELECT coalesce(max(id), 0)::bigint + 1 FROM plain").fetchall()
    body, now = os.urandom(SMALL_BODY_BYTES), time.time_ns() // 1_000_000
    begun = time.perf_counter()
    for start in range(first, first + messages, TOGETHER):
        insert(connection, [(number, now, body) for number in range(start, start + TOGETHER)])
    return messages / (time.perf_counter() - begun)


def _row_by_row(connection: Connection, rows: Rows) -> None:
    with connection.transaction():
        connection.cursor(binary=True).executemany(ONE_ROW, rows)


def _many_rows(connection: Connection, rows: Rows) -> None:
    values = [value for row in rows for value in row]
    connection.execute(MANY_ROWS, values, prepare=True, binary=True)


class _Store:
    """A store in a loop that runs only while it is asked for something."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        self._opened = opened(url)
        self._nonces = count(1)

    def __enter__(self) -> Self:
        self._store: PostgresStore = self._runner.run(self._opened.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._opened.__aexit__(None, None, None))
        self._runner.close()

    def readings(self, messages: int) -> list[Reading]:
        """Send so many, then receive and complete them."""
        sent, received = self.pass_through(messages)
        return [_reading(Figure.STORE_SEND, sent), _reading(Figure.STORE_RECEIVE, received)]

    def pass_through(self, messages: int) -> tuple[float, float]:
        """Messages per second in, and out."""
        sent = self._timed(self._send(messages))
        received = self._timed(self._receive(messages))
        return messages / sent, messages / received

    def _timed(self, work: Coroutine[None, None, None]) -> float:
        begun = time.perf_counter()
        self._runner.run(work)
        return time.perf_counter() - begun

    async def _send(self, messages: int) -> None:
        batch = Append(MAIN, [Message(os.urandom(SMALL_BODY_BYTES))] * TOGETHER, ROOMY)
        for _ in range(messages // TOGETHER):
            await send(self._store, batch)

    async def _receive(self, messages: int) -> None:
        for _ in range(messages // TOGETHER):
            if await receive(self._store, TOGETHER, next(self._nonces)) != TOGETHER:
                raise BenchmarkError("messages that were sent do not come")
