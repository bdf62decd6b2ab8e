"""Runs: what subscriptions have not read yet is one row for many messages, and safe as such."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from bendybus.model.entity import Subscription, Topic
from bendybus.model.ids import EntityNumber, QueueNumber
from bendybus.model.message import Message
from bendybus.model.operations import Publish, Taker
from bendybus.store.port import Acquire, EntityRecord, FragmentPlace, ParentTopic
from bendybus.store.sql import applying, catalog, reading
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.testing.store_contract.subject import HERE, LOCK_MS, NOON, ROOMY, after

TOPIC, FIRST, SECOND = QueueNumber(1), QueueNumber(5), QueueNumber(9)
COUNT = 100


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = open_database(tmp_path / "store.db", Pacing())
    topic = EntityRecord(EntityNumber(1), Topic("news"), 1, (FragmentPlace(HERE, TOPIC),))
    catalog.put_entities(database, HERE, [topic])
    for number, queue in ((2, FIRST), (3, SECOND)):
        parent = ParentTopic(topic.number, "news")
        place = FragmentPlace(HERE, queue)
        record = EntityRecord(EntityNumber(number), Subscription(f"s{number}"), 1, (place,), parent)
        catalog.put_entities(database, HERE, [record])
    yield database
    database.close()


def publish(database: SqliteDatabase, count: int = COUNT, *, key: str | None = None) -> None:
    messages = [Message(b"%d" % number, partition_key=key) for number in range(count)]
    takers = [Taker(queue, range(count), [None] * count) for queue in (FIRST, SECOND)]
    applying.make(database, Publish(TOPIC, messages, takers, [], ROOMY), NOON)


def acquired(database: SqliteDatabase, queue: QueueNumber) -> int:
    wish = Acquire(queue, COUNT, ROOMY, after(LOCK_MS), 1)
    return len(reading.acquire(database, wish, NOON))


def rows(database: SqliteDatabase, table: str) -> int:
    [(count,)] = database.execute(f"SELECT count(*) FROM {table}").fetchall()  # noqa: S608 - ours
    assert isinstance(count, int)
    return count


def test_what_nobody_looked_at_is_one_row_for_each_subscription(database: SqliteDatabase) -> None:
    publish(database)
    assert (rows(database, "run"), rows(database, "message")) == (2, 0)
    assert acquired(database, FIRST) == COUNT
    assert (rows(database, "run"), rows(database, "message")) == (1, COUNT)


def test_messages_of_which_there_is_more_to_say_have_rows(database: SqliteDatabase) -> None:
    publish(database, key="red")
    publish(database, 2)
    assert (rows(database, "run"), rows(database, "message")) == (0, 2 * COUNT + 4)


@pytest.mark.parametrize("column", ["length", "body", "enqueued_at", "checksum"])
def test_a_damaged_run_is_set_aside_once_and_the_others_go_on(
    database: SqliteDatabase, caplog: pytest.LogCaptureFixture, column: str
) -> None:
    publish(database)
    publish(database)
    database.execute(
        f"UPDATE run SET {column} = {column} + 1"  # noqa: S608 - ours
        " WHERE first = (SELECT min(first) FROM run)"
    )
    with caplog.at_level(logging.ERROR):
        assert acquired(database, FIRST) == COUNT
        assert acquired(database, FIRST) == 0
    assert caplog.text.count("damaged on disk") == 1
    assert acquired(database, SECOND) == COUNT
    assert reading.counts(database, FIRST).messages == 2 * COUNT
