"""Every statement has one plan, whatever statistics say of the tables.

A plan is made once for all values and kept while tables grow. So it must be the same for a store
that was just emptied, where anything is quick, and for one with a million messages in any state.
"""

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import psycopg
import pytest

from bendybus.store.postgres.consecutive import CONSECUTIVE
from bendybus.store.postgres.planning import DISABLED_COST, SESSION_SETTINGS
from bendybus.store.postgres.statements import STATEMENTS

POSTGRES = files("bendybus.store.postgres")
EVERY_STATEMENT = {
    **STATEMENTS,
    **{f"{name}, consecutive": text for name, text in CONSECUTIVE.items()},
}
# Made when a store is opened or looked over, of tables with few rows: one per entity, or per chunk.
NOT_OF_TRAFFIC = {
    "access",
    "entities",
    "forget_prepared",
    "litter_left",
    "make_indexes_anew",
    "numbers_given",
    "occupied",
    "prepared",
    "queues",
    "queues_with_runs",
    "staged_tally",
    "uses",
    "versions",
}
# What the traffic stands on, and by what it must be found.
HOT = {
    "reserve_counters": {"queue_pkey"},
    "find_free": {"message_free", "queue_pkey"},
    "find_free_plain": {"message_free", "queue_pkey"},
    "read_bodies": {"body_pkey"},
    "lock_messages": {"message_pkey"},
    "find_guarded": {"message_pkey"},
    "remove_messages": {"message_pkey"},
    "remove_bodies": {"body_pkey"},
    "unlock_messages": {"message_pkey", "queue_pkey"},
    "count_down": {"queue_pkey"},
    "bytes_down": {"queue_pkey"},
    "next_counters": {"queue_pkey"},
    "unheld_bodies": {"message_pkey", "shared_body_pkey"},
    "oldest_runs": {"run_pkey"},
    "unfold_runs": {"run_pkey", "body_pkey", "queue_pkey"},
    "known_transfers": {"transfer_pkey", "entity_pkey", "prepared_pkey"},
    "browse": {"message_pkey", "session_pkey", "delivered_pkey"},
    "find_held_session": {"session_held", "delivered_pkey"},
    "find_free_plain_in_session": {"message_nonce", "message_session_free"},
    "find_in_hand": {"message_pkey", "session_held", "delivered_pkey"},
    "note_arrivals": {"message_pkey", "session_pkey"},
    "find_waiting_sessions": {"session_waiting", "message_session_free"},
    "forget_seen": {"seen_id_age"},
    "first_seen": {"seen_id_age"},
}
FILLED = ("message", "body", "session", "delivered", "shared_body", "run", "seen_id")
GROWING = r"(message|body|shared_body|run|session|delivered|seen_id|transfer|staged)"
INDEX = re.compile(rf"Index (?:Only )?Scan (?:Backward )?using (\w+) on {GROWING}\b")
# What a store may be full of. `number` goes from 1 on.
FREE = "0, NULL, NULL, NULL, NULL"
FILLINGS: Mapping[str, tuple[str, ...]] = {
    "waiting": (FREE,),
    "held": ("0, 9, 9, NULL, NULL",),
    "scheduled": ("2, NULL, NULL, NULL, NULL",),
    "in one session": ("0, NULL, NULL, 'a', 1",),
    "in many sessions": ("0, NULL, NULL, 's' || number, 1",),
    "mixed": (FREE, "0, 9, 9, NULL, NULL", "1, NULL, NULL, 'b', NULL"),
}
FILL_MESSAGES = """
    INSERT INTO message (id, queue, state, locked_until, nonce, session_id, by_session,
                         delivery_count, enqueued_at, body, size)
    SELECT (1::bigint << 44) + number, 1, {values}, 0, number, number, 50
      FROM generate_series(1, {rows}) AS number WHERE number % {kinds} = {at}"""
FILL_BESIDE = """
    INSERT INTO body SELECT id, ''::bytea FROM message;
    INSERT INTO session (queue, session_id, waiting_since, is_ready, locked_until, nonce)
    SELECT 1, 's' || number, number, number % 2, number, number
      FROM generate_series(1, {rows}) AS number;
    INSERT INTO delivered SELECT number, number FROM generate_series(1, {rows}) AS number;
    INSERT INTO shared_body SELECT id, 2 FROM body WHERE id % 10 = 0;
    INSERT INTO run (first, length, body, enqueued_at, checksum)
    SELECT (2::bigint << 44) + 4 * number, 4, number, number, 0
      FROM generate_series(1, {rows}) AS number;
    INSERT INTO seen_id SELECT 1, number, int4send(number::int)
      FROM generate_series(1, {rows}) AS number"""

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def connection(postgres_url: str) -> Iterator[Connection]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA bendybus; SET search_path = bendybus")
        run(connection, POSTGRES.joinpath("schema.sql").read_text())
        for name, value in SESSION_SETTINGS.items():
            run(connection, f"SET {name} = {value}")
        yield connection


def run(connection: Connection, text: str) -> None:
    connection.execute(text.encode())


def fill(connection: Connection, rows: int, filling: str) -> None:
    """Let the store have so many messages, and as much of what goes with them; look at them."""
    run(connection, f"TRUNCATE {', '.join(FILLED)}")
    kinds = FILLINGS[filling]
    for at, values in enumerate(kinds):
        run(connection, FILL_MESSAGES.format(rows=rows, values=values, kinds=len(kinds), at=at))
    run(connection, FILL_BESIDE.format(rows=rows // 10))
    look(connection)


def look(connection: Connection) -> None:
    """Let the planner know what there is, and forget the plans that were made before."""
    run(connection, f"VACUUM (ANALYZE) {', '.join(FILLED)}, queue, transfer, staged, stage")
    connection.execute("DEALLOCATE ALL")


def plan(connection: Connection, statement: str, options: str = "COSTS OFF") -> str:
    """Return how PostgreSQL would go about a statement, whatever its parameters are."""
    count = max([0, *(int(number) for number in re.findall(r"\$(\d+)", statement))])
    run(connection, f"PREPARE looked_at AS {statement}")
    given = f"({', '.join(['NULL'] * count)})" if count else ""
    explain = f"EXPLAIN ({options}) EXECUTE looked_at{given}"
    rows = connection.execute(explain.encode()).fetchall()
    connection.execute("DEALLOCATE looked_at")
    return "\n".join(line for (line,) in rows)


def plans(connection: Connection) -> dict[str, str]:
    return {
        name: plan(connection, statement)
        for name, statement in EVERY_STATEMENT.items()
        if name not in NOT_OF_TRAFFIC
    }


def test_no_statement_needs_what_is_switched_off(connection: Connection) -> None:
    look(connection)
    dear = {
        name
        for name, statement in EVERY_STATEMENT.items()
        if name not in NOT_OF_TRAFFIC and cost(connection, statement) >= DISABLED_COST
    }
    assert dear == set()


def cost(connection: Connection, statement: str) -> float:
    text = plan(connection, statement, "COSTS ON")
    return max(float(number) for number in re.findall(r"\.\.([\d.]+) rows", text))


def test_what_is_switched_off_would_be_noticed(connection: Connection) -> None:
    look(connection)
    assert cost(connection, "SELECT * FROM message WHERE size = $1::bigint") >= DISABLED_COST


def test_the_traffic_is_found_by_its_indexes(connection: Connection) -> None:
    look(connection)
    for name, indexes in HOT.items():
        text = plan(connection, STATEMENTS[name])
        used = set(re.findall(r"using (\w+) on", text))
        assert used == indexes, text


def test_no_index_is_read_from_end_to_end(connection: Connection) -> None:
    """But in order, up to a limit: what is oldest, what is next."""
    look(connection)
    whole: dict[str, list[str]] = {}
    for name, text in plans(connection).items():
        lines = text.splitlines()
        for line, following, before in zip(lines, [*lines[1:], ""], ["", *lines], strict=False):
            if INDEX.search(line) and "Index Cond" not in following and "Limit" not in before:
                whole.setdefault(name, []).append(line.strip())
    assert whole == {}


@pytest.mark.parametrize(
    ("rows", "memory"),
    [
        (1_000, "4MB"),
        # Too little to keep a column of all messages in, as the other is for a million.
        (10_000, "64kB"),
        pytest.param(1_000_000, "4MB", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
)
def test_plans_are_the_same_whatever_a_store_is_full_of(
    connection: Connection, rows: int, memory: str
) -> None:
    run(connection, f"SET work_mem = '{memory}'")
    look(connection)
    of_empty_store = plans(connection)
    for filling in FILLINGS:
        fill(connection, rows, filling)
        found = plans(connection)
        other = {name: found[name] for name in found if found[name] != of_empty_store[name]}
        assert other == {}, filling
