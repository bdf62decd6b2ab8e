"""Rows that are gone make room for others as fast as messages pass through."""

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append, Remove
from bendybus.store.port import Acquire
from bendybus.store.postgres.bounded import BoundedConnection
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.vacuuming import DEAD_MIN, Vacuum
from bendybus.store.sql import applying, reading
from bendybus.testing.store_contract.subject import LOCK_MS, MAIN, NOON, ROOMY
from tests.store.steps import Measured, postgres_measured
from tests.store.test_growth import put_entities

BACKLOG = 5_000
TOGETHER = 500
DEADLINE_SECONDS = 30


@pytest.fixture
def measured(postgres_url: str) -> Iterator[Measured]:
    with postgres_measured(postgres_url) as measured:
        put_entities(measured.database)
        yield measured


@pytest.fixture
def vacuum(postgres_url: str) -> Iterator[Vacuum]:
    vacuum = Vacuum(lambda: connect(postgres_url), lambda: True, pause_seconds=0.01)
    yield vacuum
    vacuum.close()


def send(measured: Measured, count: int) -> None:
    database = measured.database
    for _ in range(count // TOGETHER):
        database.begin(is_synced=False)
        applying.make(database, Append(MAIN, [Message(b"x" * 200)] * TOGETHER, ROOMY), NOON)
        database.commit()


def receive(measured: Measured, count: int) -> None:
    database = measured.database
    for nonce in range(count // TOGETHER):
        wish = Acquire(MAIN, TOGETHER, ROOMY, Instant(NOON + LOCK_MS), nonce)
        database.begin(is_synced=False)
        held = reading.acquire(database, wish, NOON)
        applying.make(database, Remove(MAIN, [message.lock for message in held]), NOON)
        database.commit()
    # Not a second later: then nobody counts what was done here.
    measured.asked("SELECT pg_stat_force_next_flush()")


def size(measured: Measured) -> int:
    [(size,)] = measured.asked(
        "SELECT pg_total_relation_size('message') + pg_total_relation_size('body')"
    )
    return int(size)


def dead_rows(connection: BoundedConnection) -> int:
    [(count,)] = connection.execute(
        "SELECT sum(n_dead_tup)::bigint FROM pg_stat_user_tables WHERE schemaname = 'bendybus'"
    ).fetchall()
    return int(count)


def wait_until(is_met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_met():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_a_queue_keeps_its_size_while_messages_pass_through(
    measured: Measured, vacuum: Vacuum, postgres_url: str
) -> None:
    send(measured, BACKLOG)
    size_of_backlog = size(measured)
    vacuum.start()
    with connect(postgres_url) as connection:
        for _ in range(8):
            send(measured, BACKLOG)
            receive(measured, BACKLOG)
            wait_until(lambda: dead_rows(connection) < 2 * DEAD_MIN)
    assert size(measured) < 3 * size_of_backlog


def test_nothing_is_vacuumed_by_who_does_not_look_after_the_store(postgres_url: str) -> None:
    asked, is_asked_again = [], threading.Event()

    def is_due() -> bool:
        asked.append(1)
        if len(asked) > 2:
            is_asked_again.set()
        return False

    def connect_in_vain() -> BoundedConnection:
        raise AssertionError(postgres_url)

    vacuum = Vacuum(connect_in_vain, is_due, pause_seconds=0.001)
    vacuum.start()
    assert is_asked_again.wait(DEADLINE_SECONDS)
    vacuum.close()
    assert vacuum._connection is None


def test_a_server_that_comes_back_is_vacuumed_again(measured: Measured, postgres_url: str) -> None:
    refusals = iter([psycopg.OperationalError("away")] * 2)

    def connect_later() -> BoundedConnection:
        if refusal := next(refusals, None):
            raise refusal
        return connect(postgres_url)

    send(measured, 2 * DEAD_MIN)
    receive(measured, 2 * DEAD_MIN)
    vacuum = Vacuum(connect_later, lambda: True, pause_seconds=0.01)
    with connect(postgres_url) as connection:
        assert dead_rows(connection) > DEAD_MIN
        vacuum.start()
        wait_until(lambda: dead_rows(connection) < DEAD_MIN)
    vacuum.close()
