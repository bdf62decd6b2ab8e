"""No call about sessions gets slower with the number of sessions or of messages in one."""

from collections import Counter

import pytest

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import (
    Append,
    EndLapsedSessions,
    Guard,
    Operation,
    ReleaseSession,
    Remove,
    RenewSession,
    SetSessionState,
    Unlock,
)
from bendybus.store.port import AcceptSession, Acquire, SessionCursor
from bendybus.store.sql import applying, catalog, reading, sessions
from bendybus.store.sql.database import SqlDatabase
from bendybus.testing.store_contract.sessions import LEDGERS, SESSIONS
from bendybus.testing.store_contract.subject import LOCK_MS, NOON, ROOMY, after
from tests.store.steps import Measured

FEW = 100
UNTIL = Instant(NOON + LOCK_MS)


@pytest.fixture
def database(measured: Measured) -> SqlDatabase:
    """The database whose steps are counted, with a queue of sessions."""
    database = measured.database
    database.begin(is_synced=False)
    catalog.put_entities(database, 0, [LEDGERS])
    database.commit()
    return database


def fill(database: SqlDatabase, numbers: range, session_id: str = "s{:06}") -> None:
    """Send a message for each number, to the session that the number makes."""
    messages = [Message(b"x" * 50, session_id=session_id.format(number)) for number in numbers]
    database.begin(is_synced=False)
    applying.make(database, Append(SESSIONS, messages, ROOMY), NOON)
    database.commit()


def steps_of_all_calls(measured: Measured) -> Counter[str]:
    """Make every call about sessions once, and undo it; return the steps it took."""
    database = measured.database
    database.begin(is_synced=False)
    with measured.counted() as steps:
        held = sessions.accept(database, AcceptSession(SESSIONS, None, UNTIL, 1), after(1))
        assert held == "s000000"
        assert sessions.accept(database, AcceptSession(SESSIONS, "new", UNTIL, 2), NOON) == "new"
        wish = Acquire(SESSIONS, 1, ROOMY, UNTIL, 1, "s000000")
        [message] = reading.acquire(database, wish, NOON)
        operations: list[Operation] = [
            Append(SESSIONS, [Message(b"y", session_id="new", partition_key="new")], ROOMY),
            RenewSession(SESSIONS, "s000000", 1, UNTIL),
            SetSessionState(SESSIONS, "s000000", 1, b"state"),
            Unlock(SESSIONS, [message.lock], is_counted=True),
        ]
        for operation in operations:
            applying.make(database, operation, NOON)
        assert reading.due(database, UNTIL, 10) == []
        [message] = reading.acquire(database, wish, NOON)
        assert len(reading.due(database, UNTIL, 10)) == 1
        assert applying.make(database, EndLapsedSessions(10), UNTIL) == 1
        assert len(reading.browse(database, SESSIONS, 0, (10, ROOMY), "s000000")) >= 1
        assert reading.next_due(database) == UNTIL
        assert sessions.page(database, SESSIONS, None, None, 10).following is not None
        later = SessionCursor("s000050", NOON)
        assert len(sessions.page(database, SESSIONS, None, later, 10).ids) == 10
        assert sessions.page(database, SESSIONS, NOON, later, 10).ids == []
        assert applying.make(database, Remove(SESSIONS, [message.lock]), NOON) == []
        assert applying.make(database, ReleaseSession(SESSIONS, "s000000", 1), NOON) == 1
        # A message with more than a session takes the careful way.
        assert sessions.accept(database, AcceptSession(SESSIONS, "new", UNTIL, 3), NOON) == "new"
        assert reading.acquire(database, Acquire(SESSIONS, 1, ROOMY, UNTIL, 3, "new"), NOON)
    database.undo()
    return steps


def check_no_slower(few: Counter[str], many: Counter[str]) -> None:
    slower = {name: (few[name], many[name]) for name in few if many[name] > few[name] * 1.1 + 20}
    assert slower == {}


def check_same(few: Counter[str], many: Counter[str]) -> None:
    assert few.keys() == many.keys()
    check_no_slower(few, many)
    acquires = {"find_free_plain_in_session", "find_free_in_session"}
    assert {"find_waiting_sessions", "end_sessions", *acquires} <= set(few)


@pytest.mark.parametrize(
    "many",
    [20 * FEW, pytest.param(1000 * FEW, marks=[pytest.mark.prove, pytest.mark.timeout(300)])],
)
def test_calls_take_the_same_steps_among_many_sessions(
    database: SqlDatabase, measured: Measured, many: int
) -> None:
    fill(database, range(FEW))
    # The first time, nothing has ever been thrown away.
    steps_of_all_calls(measured)
    few_steps = steps_of_all_calls(measured)
    fill(database, range(FEW, many))
    check_same(few_steps, steps_of_all_calls(measured))


def test_calls_take_the_same_steps_in_a_session_of_many_messages(
    database: SqlDatabase, measured: Measured
) -> None:
    fill(database, range(FEW))
    fill(database, range(FEW), "s000000")
    steps_of_all_calls(measured)
    few_steps = steps_of_all_calls(measured)
    fill(database, range(20 * FEW), "s000000")
    check_same(few_steps, steps_of_all_calls(measured))


def test_a_session_that_holds_much_is_asked_for_more_in_the_same_steps(
    database: SqlDatabase, measured: Measured
) -> None:
    """What is held or deferred stands before what is free; nothing may walk over it."""
    fill(database, range(40 * FEW), "s000000")
    sessions.accept(database, AcceptSession(SESSIONS, "s000000", UNTIL, 1), NOON)

    def steps() -> Counter[str]:
        with measured.counted() as counted:
            wish = Acquire(SESSIONS, 10, ROOMY, UNTIL, 1, "s000000")
            assert len(reading.acquire(database, wish, NOON)) == 10
        return counted

    few_steps = steps()
    wish = Acquire(SESSIONS, 20 * FEW, ROOMY, UNTIL, 1, "s000000")
    assert len(reading.acquire(database, wish, NOON)) == 20 * FEW
    check_no_slower(few_steps, steps())
    assert "find_free_plain_in_session" in few_steps


def test_what_a_lapsed_session_held_is_freed_in_the_same_steps_turn_by_turn(
    database: SqlDatabase, measured: Measured
) -> None:
    fill(database, range(20 * FEW), "s000000")
    sessions.accept(database, AcceptSession(SESSIONS, "s000000", UNTIL, 1), NOON)
    wish = Acquire(SESSIONS, 20 * FEW, ROOMY, UNTIL, 1, "s000000")
    assert len(reading.acquire(database, wish, NOON)) == 20 * FEW

    def turn() -> Counter[str]:
        with measured.counted() as counted:
            locks = [due.lock for due in reading.due(database, UNTIL, FEW)]
            assert len(locks) == FEW
            unlock = Unlock(SESSIONS, locks, is_counted=True, guard=Guard.LAPSED)
            assert applying.make(database, unlock, UNTIL) == []
            applying.make(database, EndLapsedSessions(10), UNTIL)
        return counted

    first, *_, last = [turn() for _ in range(19)]
    assert {"due", "note_freed", "find_lapsed_sessions"} <= set(first)
    check_no_slower(first, last)


def test_nothing_is_left_of_locks_that_ended(database: SqlDatabase, measured: Measured) -> None:
    fill(database, range(4), "s000000")
    for nonce, session_id in enumerate(("s000000", "new", "s000000"), 1):
        sessions.accept(database, AcceptSession(SESSIONS, session_id, UNTIL, nonce), NOON)
        wish = Acquire(SESSIONS, nonce, ROOMY, UNTIL, nonce, session_id)
        reading.acquire(database, wish, NOON)
        release = ReleaseSession(SESSIONS, session_id, nonce)
        assert applying.make(database, release, NOON) == (1 if session_id == "new" else 1 + nonce)
    assert measured.asked("SELECT * FROM delivered") == []
    assert measured.asked("SELECT * FROM session WHERE nonce IS NOT NULL") == []
