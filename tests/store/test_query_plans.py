"""No statement of the traffic gets slower as a backlog grows.

Two ways to see it: the plan of every statement searches by an index and never scans messages or
bodies; and the steps that SQLite takes for a call are the same on a small and a large backlog.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.model.entity import Subscription, Topic
from bendybus.model.ids import EntityNumber, Instant, QueueNumber
from bendybus.model.message import Lock, Marks, Message
from bendybus.model.operations import (
    Append,
    CommitReserved,
    GiveBack,
    Guard,
    Move,
    OpenReader,
    Operation,
    Publish,
    Remove,
    Renew,
    Requeue,
    Requeued,
    Reserve,
    Reserved,
    Rewrite,
    Taker,
    Unlock,
)
from bendybus.store.port import Acquire, EntityRecord, FragmentPlace, ParentTopic
from bendybus.store.sql import applying, catalog, counting, readers, reading
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.statements import STATEMENTS
from bendybus.testing.store_contract.subject import (
    DEAD,
    EVENTS,
    HERE,
    LOCK_MS,
    MAIN,
    NOON,
    ORDERS,
    ROOMY,
    after,
)

BATCH = 10
SMALL = 1_000
FULL_SCAN = re.compile(r"SCAN (message|body|queue|seen)\b")
SORT = re.compile(r"USE TEMP B-TREE")
TOPIC = QueueNumber(9)
SUBSCRIPTIONS = [QueueNumber(13), QueueNumber(17), QueueNumber(21)]
# What these sort has a bound of its own.
SORTED_WITHIN_BOUNDS = {"count_locked"}
READ_AT_START_ONLY = {
    "entities",
    "versions",
    "queues",
    "logged_ids",
    "queues_with_runs",
    "occupied",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = open_database(tmp_path / "store.db", Pacing())
    catalog.put_entities(database, 0, [ORDERS])
    catalog.put_entities(database, 0, [EVENTS])
    topic = EntityRecord(EntityNumber(3), Topic("news"), 1, (FragmentPlace(HERE, TOPIC),))
    catalog.put_entities(database, 0, [topic])
    for number, queue in enumerate(SUBSCRIPTIONS, 4):
        parent, place = ParentTopic(topic.number, "news"), FragmentPlace(HERE, queue)
        subscription = Subscription(f"s{number}")
        record = EntityRecord(EntityNumber(number), subscription, 1, (place,), parent)
        catalog.put_entities(database, 0, [record])
    yield database
    database.close()


def fill(database: SqliteDatabase, rows: int) -> None:
    """Send so many messages; a third of them end, and the last thousand are locked."""
    messages = [Message(b"x" * 50, expires_at=after(9e6) if n % 3 else None) for n in range(SMALL)]
    database.begin(is_synced=False)
    for _ in range(rows // SMALL):
        applying.make(database, Append(MAIN, messages, ROOMY), NOON)
        for start in range(0, SMALL, 50):
            applying.make(database, publish(messages[start : start + 50]), NOON)
    database.execute("COMMIT")
    database.execute(
        "UPDATE message SET locked_until = ?1, nonce = 9"
        " WHERE queue = ?3 AND id > (SELECT max(id) FROM message WHERE queue = ?3) - ?2",
        (after(9e6), SMALL // 2, MAIN),
    )


def publish(messages: list[Message]) -> Publish:
    """Give messages to all subscriptions but the last, and the first of them to that one, too."""
    nobody_else = Taker(SUBSCRIPTIONS[-1], [0], [None])
    takers = [
        Taker(queue, range(len(messages)), [None] * len(messages)) for queue in SUBSCRIPTIONS[:-1]
    ]
    return Publish(TOPIC, messages, [*takers, nobody_else], [], ROOMY)


def plan(database: SqliteDatabase, statement: str) -> list[str]:
    """Return how SQLite would go about a statement."""
    count = max([0, *(int(number) for number in re.findall(r"\?(\d+)", statement))])
    rows: Any = database.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * count)
    return [detail for _, _, _, detail in rows]


def lines_with(pattern: re.Pattern[str], database: SqliteDatabase) -> dict[str, list[str]]:
    """Return the lines of all plans that match, by the statement's name."""
    plans = {
        name: plan(database, statement)
        for name, statement in STATEMENTS.items()
        if name not in READ_AT_START_ONLY
    }
    return {
        name: bad
        for name, lines in plans.items()
        if (bad := [line for line in lines if pattern.match(line)])
    }


def test_every_statement_searches_by_an_index(database: SqliteDatabase) -> None:
    fill(database, SMALL)
    assert lines_with(FULL_SCAN, database) == {}


def test_nothing_is_sorted_that_an_index_has_in_order(database: SqliteDatabase) -> None:
    fill(database, SMALL)
    assert lines_with(SORT, database).keys() <= SORTED_WITHIN_BOUNDS


def test_a_scan_would_be_found(database: SqliteDatabase) -> None:
    assert FULL_SCAN.match(plan(database, "SELECT * FROM message WHERE size = ?1")[0])


def test_no_statement_is_planned_anew_for_other_values(database: SqliteDatabase) -> None:
    fill(database, SMALL)
    planned: list[int] = []

    def note(code: int, *_: object) -> int:
        planned.append(code)
        return apsw.SQLITE_OK

    # Asked while a statement is planned, and only then.
    database.connection.authorizer = note
    for minutes in range(3):
        planned.clear()
        now = after(minutes * 60)
        assert reading.due(database, now, BATCH) == []
        until = Instant(now + 9 * LOCK_MS)
        assert len(reading.acquire(database, Acquire(MAIN, BATCH, ROOMY, until, 1), now)) == BATCH
    assert planned == []


@contextmanager
def counted_steps(database: SqliteDatabase) -> Iterator[Counter[str]]:
    """Count the steps of SQLite's machine by statement."""
    steps: Counter[str] = Counter()
    names = {statement: name for name, statement in STATEMENTS.items()}

    def note(event: dict[str, Any]) -> None:
        name = names.get(event["sql"].strip(), event["sql"])
        steps[name] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    execute = database.execute
    # A statement that is kept for the next time counts on where it was.
    vars(database)["execute"] = partial(execute, can_cache=False)
    database.connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    try:
        yield steps
    finally:
        database.connection.trace_v2(0, None)
        vars(database)["execute"] = execute


def steps_of_all_calls(database: SqliteDatabase) -> Counter[str]:
    """Make every call of the traffic once, and undo it; return the steps it took."""
    until = Instant(NOON + LOCK_MS)
    database.begin(is_synced=False)
    with counted_steps(database) as steps:
        applying.make(database, Append(MAIN, [Message(b"y")] * BATCH, ROOMY), NOON)
        applying.make(
            database, Append(MAIN, [Message(b"y", partition_key="k")] * BATCH, ROOMY), NOON
        )
        held = reading.acquire(database, Acquire(MAIN, BATCH, ROOMY, until, 1), NOON)
        locks = [message.lock for message in held]
        assert len(locks) == BATCH
        assert len(reading.find_locked(database, MAIN, locks, NOON)) == BATCH
        assert len(reading.browse(database, MAIN, 500, (BATCH, ROOMY))) == BATCH
        assert len(reading.due(database, until, BATCH)) == BATCH
        assert len(reading.due(database, after(9e6), BATCH)) == BATCH
        operations: list[Operation] = [
            Renew(MAIN, locks, Instant(until + 1)),
            Rewrite(MAIN, locks[0], Marks("why")),
            Unlock(MAIN, locks[1:3], is_counted=True),
            Move(MAIN, DEAD, locks[0], Marks("why"), is_counted=True),
            Remove(MAIN, locks[3:]),
        ]
        for operation in operations:
            assert applying.make(database, operation, NOON) == []
        [dead] = reading.browse(database, DEAD, 0, (1, ROOMY))
        anew = Requeued(Lock(dead.sequence, 0, dead.delivery_count), None, None)
        assert applying.make(database, Requeue(DEAD, MAIN, [anew]), NOON) == []
        last = reading.extent(database, MAIN).last_sequence
        again = Requeued(Lock(last, 0), Marks("why"), None)
        assert applying.make(database, Requeue(MAIN, DEAD, [again]), NOON) == []
        for key in (None, "k"):
            messages = [Message(b"y", partition_key=key)] * BATCH
            applying.make(database, publish(messages), NOON)
        for queue in SUBSCRIPTIONS:
            taken = reading.acquire(database, Acquire(queue, BATCH, ROOMY, until, 2), NOON)
            held_there = [message.lock for message in taken]
            assert applying.make(database, Remove(queue, held_there), NOON) == []
        free = Lock(locks[1].sequence, 0)
        assert applying.make(database, Remove(MAIN, [free], Guard.FREE), after(9e6)) == []
        reader = (MAIN, "reader", "token")
        applying.make(database, OpenReader(*reader, NOON, NOON, 1), NOON)
        for at in range(3):
            made = applying.make(database, Reserve(*reader, at, BATCH, ROOMY), NOON)
            assert isinstance(made, Reserved)
            assert made.messages == BATCH
        [kept, *_] = readers.reservations(database, reader, 0, 3, NOON)
        assert len(reading.read_reserved(database, MAIN, kept.number, 0, (BATCH, ROOMY))) == BATCH
        assert applying.make(database, CommitReserved(*reader, 2), NOON) == 1
        assert len(readers.records(database, [MAIN])) == 1
        applying.make(database, GiveBack(*reader, "another"), NOON)
        reading.counts(database, MAIN)
        counting.tallies(database, [MAIN, DEAD, *SUBSCRIPTIONS])
    database.execute("ROLLBACK")
    return steps


def check_growth(database: SqliteDatabase, large: int) -> None:
    fill(database, SMALL)
    few = steps_of_all_calls(database)
    fill(database, large - SMALL)
    many = steps_of_all_calls(database)
    assert few.keys() == many.keys()
    # Some look one row further or less than before; none looks at the backlog.
    slower = {name: (few[name], many[name]) for name in few if many[name] > few[name] * 1.1 + 20}
    assert slower == {}
    assert {"find_free", "lock_messages", "read_bodies", "find_guarded", "remove_bodies"} <= set(
        few
    )
    assert {"find_reservable", "reserve_messages", "find_reserved", "free_reserved"} <= set(few)
    assert {"give", "give_each", "share_bodies", "release_shared", "unheld_bodies"} <= set(few)


def test_calls_take_the_same_steps_on_a_backlog_twenty_times_as_large(
    database: SqliteDatabase,
) -> None:
    check_growth(database, 20 * SMALL)


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_calls_take_the_same_steps_on_a_backlog_of_a_million(database: SqliteDatabase) -> None:
    check_growth(database, 1000 * SMALL)
