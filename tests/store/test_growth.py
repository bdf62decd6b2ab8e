"""No call of the traffic does more as a backlog grows."""

from collections import Counter

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
from bendybus.store.sql.database import SqlDatabase
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
from tests.store.steps import Measured

BATCH = 10
SMALL = 1_000
TOPIC = QueueNumber(9)
SUBSCRIPTIONS = [QueueNumber(13), QueueNumber(17), QueueNumber(21)]


def put_entities(database: SqlDatabase) -> None:
    """Make two queues, and a topic with its subscriptions."""
    topic = EntityRecord(EntityNumber(3), Topic("news"), 1, (FragmentPlace(HERE, TOPIC),))
    records = [ORDERS, EVENTS, topic]
    for number, queue in enumerate(SUBSCRIPTIONS, 4):
        parent, place = ParentTopic(topic.number, "news"), FragmentPlace(HERE, queue)
        subscription = Subscription(f"s{number}")
        records.append(EntityRecord(EntityNumber(number), subscription, 1, (place,), parent))
    for record in records:
        database.begin(is_synced=False)
        catalog.put_entities(database, 0, [record])
        database.commit()


def fill(database: SqlDatabase, rows: int) -> None:
    """Send so many messages; a third of them end, and the last five hundred are locked."""
    messages = [Message(b"x" * 50, expires_at=after(9e6) if n % 3 else None) for n in range(SMALL)]
    database.begin(is_synced=False)
    for _ in range(rows // SMALL):
        applying.make(database, Append(MAIN, messages, ROOMY), NOON)
        for start in range(0, SMALL, 50):
            applying.make(database, publish(messages[start : start + 50]), NOON)
    last = reading.extent(database, MAIN).last_sequence
    ids = database.message_ids(MAIN, range(last - SMALL // 2 + 1, last + 1))
    database.run("lock_messages", (database.array(ids), after(9e6), 9))
    database.commit()


def publish(messages: list[Message]) -> Publish:
    """Give messages to all subscriptions but the last, and the first of them to that one, too."""
    nobody_else = Taker(SUBSCRIPTIONS[-1], [0], [None])
    takers = [
        Taker(queue, range(len(messages)), [None] * len(messages)) for queue in SUBSCRIPTIONS[:-1]
    ]
    return Publish(TOPIC, messages, [*takers, nobody_else], [], ROOMY)


def steps_of_all_calls(measured: Measured) -> Counter[str]:
    """Make every call of the traffic once, and undo it; return the steps it took."""
    database, until = measured.database, Instant(NOON + LOCK_MS)
    database.begin(is_synced=False)
    with measured.counted() as steps:
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
    database.undo()
    return steps


@pytest.mark.parametrize(
    "large",
    [20 * SMALL, pytest.param(1000 * SMALL, marks=[pytest.mark.prove, pytest.mark.timeout(1800)])],
)
def test_calls_take_the_same_steps_on_a_larger_backlog(measured: Measured, large: int) -> None:
    database = measured.database
    put_entities(database)
    fill(database, SMALL)
    measured.vacuum()
    few = steps_of_all_calls(measured)
    fill(database, large - SMALL)
    measured.vacuum()
    many = steps_of_all_calls(measured)
    assert few.keys() == many.keys()
    # Some look one row further or less than before; none looks at the backlog.
    slower = {name: (few[name], many[name]) for name in few if many[name] > few[name] * 1.1 + 20}
    assert slower == {}
    assert {"find_free", "lock_messages", "read_bodies", "find_guarded", "remove_bodies"} <= set(
        few
    )
    assert {"find_reservable", "reserve_messages", "find_reserved", "free_reserved"} <= set(few)
    assert {"give", "give_each", "share_bodies", "release_shared", "unheld_bodies"} <= set(few)


def test_a_look_at_the_whole_backlog_would_be_noticed(measured: Measured) -> None:
    database = measured.database
    put_entities(database)
    fill(database, SMALL)
    database.begin(is_synced=False)
    with measured.counted() as steps:
        database.row("ids_from", (0, (1 << 63) - 1, 1))
        few = steps["ids_from"]
        database.row("ids_from", (0, (1 << 63) - 1, SMALL))
    database.undo()
    assert steps["ids_from"] > 100 * few
