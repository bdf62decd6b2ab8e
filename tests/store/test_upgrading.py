"""A file of an earlier release becomes one of this release, with all that it held."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock
from bendybus.model.operations import Guard, Remove, SetAside
from bendybus.store.port import Acquire, Tally
from bendybus.store.sqlite.database import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    Pacing,
    open_database,
)
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.deferring import had_back
from bendybus.testing.store_contract.reserving import open_reader, read, reserve
from bendybus.testing.store_contract.scheduling import later, schedule
from bendybus.testing.store_contract.sessions import (
    LEDGERS,
    SESSIONS,
    UNTIL,
    accept,
    post,
    take,
)
from bendybus.testing.store_contract.subject import (
    DEAD,
    EVENTS,
    MAIN,
    NOON,
    ORDERS,
    ROOMY,
    contents,
    contents_of,
    lock,
    locks,
    send,
)

KEPT_IN_2 = {
    "entity": "number, name, kind, topic, version, properties, declared_rules, places, is_removed",
    "queue": "number, entity, fragment, sub_queue, next_counter, message_count, message_bytes",
    "message": "id, queue, state, delivery_count, enqueued_at, expires_at, locked_until, nonce,"
    " body, size, session_id, partition_key, marks",
}


async def fill(path: Path) -> None:
    """Make a store with messages in every state, and an entity that was removed."""
    store = SqliteStore(0, path)
    await store.start()
    await store.put_entities([ORDERS, EVENTS])
    await send(store, b"deferred", b"locked", b"free")
    [deferred, _] = await lock(store, 2)
    await store.apply([SetAside(MAIN, [deferred.lock])], now=NOON)
    await schedule(store, later(b"scheduled"))
    await store.remove_entity(EVENTS.number, count_max=1)
    await store.close()


def as_version(version: int, path: Path) -> None:
    """Write what the file holds as the earlier release would have."""
    schema = Path(__file__).with_name(f"schema_{version}.sql").read_text(encoding="utf-8")
    old = path.with_suffix(".old")
    path.rename(old)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(schema)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={version}")
        connection.execute("ATTACH ?1 AS new", (str(old),))
        tables = connection.execute(
            "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name <> 'sqlite_sequence'"
        ).fetchall()
        with connection:
            for (table,) in tables:
                columns = KEPT_IN_2.get(str(table), "*") if version == 2 else "*"
                connection.execute(
                    f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}"  # noqa: S608 - our own names
                )
            connection.execute("DELETE FROM main.sqlite_sequence")
            connection.execute("INSERT INTO main.sqlite_sequence SELECT * FROM new.sqlite_sequence")
    old.unlink()


@pytest.fixture(params=[2, 4, 5, 6, 7], ids="version {}".format)
async def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    await fill(path)
    as_version(request.param, path)
    return path


async def test_an_earlier_file_keeps_entities_messages_and_numbers(path: Path) -> None:
    store = SqliteStore(0, path)
    await store.start()
    assert store.is_online, store.status().reason
    assert await store.entities() == [ORDERS]
    assert await contents_of(store) == [b"deferred", b"locked", b"free", b"scheduled"]
    assert await store.numbers_given() == (EVENTS.number, QueueNumber(8))
    held = await store.tallies([MAIN, DEAD])
    assert held[DEAD] == Tally(0, 0, 0, None, 0)
    assert held[MAIN][:3] == (2, 1, 1)
    [deferred] = await had_back(store, [1])
    scheduled = Remove(MAIN, [Lock(4, 0)], Guard.SCHEDULED)
    assert await store.apply([Remove(MAIN, [deferred.lock]), scheduled], now=NOON) == [[], []]
    assert (await store.tallies([MAIN]))[MAIN][:3] == (2, 0, 0)
    assert await send(store, b"new") == [5]
    assert await store.prepared() == []
    await store.close()


async def test_messages_of_an_earlier_file_are_received_by_session(tmp_path: Path) -> None:
    store = SqliteStore(0, tmp_path / "store.db")
    await store.start()
    await store.put_entities([LEDGERS])
    await post(store, "a", b"1", b"2")
    await store.close()
    as_version(2, store.path)

    store = SqliteStore(0, store.path)
    await store.start()
    assert await store.acquire(Acquire(SESSIONS, 9, ROOMY, UNTIL, 1), now=NOON) == []
    assert await accept(store, nonce=2) == "a"
    held = await take(store, "a", nonce=2)
    assert contents(held) == [b"1", b"2"]
    assert await store.apply([Remove(SESSIONS, locks(held))], now=NOON) == [[]]
    await store.close()


async def test_messages_of_an_earlier_file_are_reserved(path: Path) -> None:
    store = SqliteStore(0, path)
    await store.start()
    await open_reader(store)
    await reserve(store)
    assert contents(await read(store)) == [b"free"]
    await store.close()


def test_an_upgraded_file_is_opened_again_as_any_other(path: Path) -> None:
    open_database(path, Pacing()).close()
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("PRAGMA user_version").fetchall() == [(SCHEMA_VERSION,)]
    before = path.read_bytes()
    open_database(path, Pacing()).close()
    assert path.read_bytes() == before


async def test_an_upgrade_that_is_cut_short_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bendybus.store.sqlite.upgrading._FILLED",
        {SCHEMA_VERSION: "SELECT no_such_function_as_this()"},
    )
    with pytest.raises(apsw.SQLError):
        open_database(path, Pacing())
    monkeypatch.undo()
    store = SqliteStore(0, path)
    await store.start()
    assert len(await contents_of(store)) == 4
    await store.close()
