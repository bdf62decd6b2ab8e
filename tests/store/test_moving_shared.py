"""A store whose file several processes share moves, and each of them follows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw
import pytest

from bendybus.model.errors import StoreUnavailable
from bendybus.model.ids import QueueNumber
from bendybus.model.store_status import StoreState
from bendybus.store.moving.moving import MoveFailed, Progress
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.store import PostgresStore
from bendybus.store.sql.failures import Elsewhere
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.notes import NOTE_NAMES, are_notes_left, make_notes
from bendybus.store.sqlite.shared_database import open_shared
from bendybus.store.sqlite.shared_store import SharedSqliteStore, is_surely_moved
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.store_contract.sharing import until
from bendybus.testing.store_contract.subject import MAIN, ORDERS, contents_of, send
from tests.store.test_moving import (
    IDENTITY,
    ROWS,
    Changing,
    change_sqlite,
    change_while,
    changing,
    check_as_in_file,
    databases,
    moved_to,
)

__all__ = ["changing", "databases"]

HASTY: Final = Pacing(attend_seconds=0.02, retry_seconds=0.01)


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[list[SharedSqliteStore]]:
    """Two that have the same file open."""
    # Its number is that of the store that ORDERS is in.
    made = [SharedSqliteStore(0, tmp_path / "store-03.db", pacing=HASTY) for _ in range(2)]
    for store in made:
        await store.start()
    yield made
    for store in made:
        await store.close()


def at_server(url: str) -> PostgresStore:
    return PostgresStore(0, url, identity=replace(IDENTITY, follows=True), is_alone=True)


@pytest.mark.spec("R1.2")
async def test_a_file_that_others_change_moves_with_what_they_changed(
    workers: list[SharedSqliteStore], databases: tuple[str, str], changing: Changing
) -> None:
    mover, other = workers
    await other.look(lambda db: change_sqlite(db, changing, ROWS))
    progress = Progress()
    moving = asyncio.ensure_future(moved_to(mover, databases[1], progress))
    await change_while(moving, other, changing)
    assert progress.caught_up > 10
    with closing(connect(databases[1])) as connection:
        check_as_in_file(connection, mover.path)


@pytest.mark.spec("R1.2")
async def test_calls_of_the_others_wait_and_are_done_where_the_store_is(
    workers: list[SharedSqliteStore], databases: tuple[str, str]
) -> None:
    mover, other = workers
    await other.put_entities([ORDERS])
    await send(other, b"before")
    await moved_to(mover, databases[1], Progress())
    waiting = asyncio.ensure_future(send(other, b"meanwhile"))
    await mover.give_way(at_server(databases[1]))
    await send(mover, b"by the mover")
    assert [each.is_left_behind for each in workers] == [False, True]
    assert not waiting.done()
    await other.follow(at_server(databases[1]))
    await waiting
    assert [each.is_left_behind for each in workers] == [False, False]
    for store in workers:
        assert await contents_of(store) == [b"before", b"by the mover", b"meanwhile"]
        assert store.status().path.startswith("postgresql://")
    heard: list[QueueNumber] = []
    other.listen(heard.extend)
    mover.tell([MAIN])
    await until(lambda: MAIN in heard)
    assert sum(store.is_caretaker for store in workers) == 1


async def test_nobody_opens_a_file_that_the_store_has_left(
    workers: list[SharedSqliteStore], databases: tuple[str, str]
) -> None:
    mover, other = workers
    await moved_to(mover, databases[1], Progress())
    with pytest.raises(Elsewhere):
        open_shared(other.path, HASTY)
    await other.take_offline("to be opened again")
    with pytest.raises(StoreUnavailable, match="was moved"):
        await other.bring_online()
    await other.follow(at_server(databases[1]))
    assert other.status().state is StoreState.ONLINE


async def test_a_move_counts_when_nobody_can_undo_it(
    workers: list[SharedSqliteStore], databases: tuple[str, str]
) -> None:
    mover, other = workers
    assert not is_surely_moved(other.path)
    await moved_to(mover, databases[1], Progress())
    assert is_surely_moved(other.path)


async def test_one_of_several_moves_a_store_at_a_time(
    workers: list[SharedSqliteStore],
    databases: tuple[str, str],
    changing: Changing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bendybus.store.sqlite.moving_from.TURN_SECONDS_MAX", 0.01)
    mover, other = workers
    await other.look(lambda db: change_sqlite(db, changing, ROWS))
    progress = Progress()
    moving = asyncio.ensure_future(moved_to(mover, databases[1], progress))
    await until(lambda: progress.rows > 0)
    with pytest.raises(MoveFailed, match="another worker moves"):
        await moved_to(other, databases[0], Progress())
    await moving


async def test_notes_that_a_killed_mover_left_are_removed_by_who_looks_after_the_store(
    workers: list[SharedSqliteStore],
) -> None:
    await workers[1].look(lambda db: make_notes(db.connection, is_shared=True))

    with closing(apsw.Connection(str(workers[0].path))) as file:
        await until(lambda: not are_notes_left(file))


async def test_notes_of_a_killed_mover_are_no_damage_and_go_when_the_file_is_opened(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store-03.db"
    first = SqliteStore(3, path)
    await first.start()
    await first.close()
    with closing(apsw.Connection(str(path))) as file, file:
        make_notes(file, is_shared=True)
        made = {name for (name,) in file.execute("SELECT name FROM sqlite_schema")}
    assert made >= NOTE_NAMES
    again = SqliteStore(3, path)
    await again.start()
    assert again.is_online, again.status().reason
    await again.close()
    with closing(apsw.Connection(str(path))) as file:
        assert not are_notes_left(file)
