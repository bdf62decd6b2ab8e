"""An SQLite file that several have open: failing disks, turns, hints, and what is left behind."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.ids import QueueNumber
from bendybus.model.store_status import StoreState
from bendybus.store.sqlite import shared_database
from bendybus.store.sqlite.database import Pacing, SqliteDatabase
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.store.sqlite.store import SqliteStore
from bendybus.store.sqlite.users import FileTurn, OthersInTheWay, Users, side_folder
from bendybus.testing.faulty_disk import Fault, FaultyDisk, faulty_disk
from bendybus.testing.store_contract.duplicates import forget, send_ids
from bendybus.testing.store_contract.sharing import until
from bendybus.testing.store_contract.subject import MAIN, NOON, ORDERS, after, contents_of, send

HASTY = Pacing(attend_seconds=0.02, retry_seconds=0.01)
Join = Callable[..., Awaitable[SharedSqliteStore]]


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


@pytest.fixture
async def join(tmp_path: Path) -> AsyncIterator[Join]:
    """Open the file once more, and close it in the end."""
    stores: list[SharedSqliteStore] = []

    async def join(path: Path = tmp_path / "store.db", **options: str) -> SharedSqliteStore:
        store = SharedSqliteStore(0, path, pacing=HASTY, vfs=options.get("vfs"))
        store.listen(lambda _: None)
        await store.start()
        stores.append(store)
        if not await store.entities():
            await store.put_entities([ORDERS])
        return store

    yield join
    for store in stores:
        await store.close()


async def keep_sending(store: SharedSqliteStore, told: list[bytes], count: int) -> int:
    """Send one after the other, note what was accepted; return how many may be there or not."""
    unknown = 0
    while len(told) < count:
        content = b"%d-%d" % (id(store), len(told))
        try:
            await send(store, content)
        except StoreFailed:
            unknown += 1
        except StoreUnavailable:
            await asyncio.sleep(0.001)
        else:
            told.append(content)
    return unknown


@pytest.mark.spec("R2.5")
async def test_when_the_disk_fails_for_one_all_let_go_and_nothing_acknowledged_is_lost(
    join: Join, disk: FaultyDisk
) -> None:
    faulty, other, idle = await join(vfs=disk.name), await join(), await join()
    openings = [store.openings for store in (faulty, other, idle)]
    told: tuple[list[bytes], list[bytes]] = ([], [])
    disk.break_at(20, Fault.SYNC_ERROR)
    sending = asyncio.gather(keep_sending(faulty, told[0], 60), keep_sending(other, told[1], 60))
    await until(lambda: faulty.status().state is StoreState.FAILED)
    # One after the other lets go, and whoever is alone then finds the disk mended.
    disk.mend()
    unknown = sum(await sending)
    await until(lambda: all(store.is_online for store in (faulty, other, idle)))

    there = await contents_of(idle)

    assert set(told[0] + told[1]) <= set(there)
    assert len(there) <= len(told[0]) + len(told[1]) + unknown
    now = [store.openings for store in (faulty, other, idle)]
    assert all(after > before for after, before in zip(now, openings, strict=True))


def test_nobody_joins_before_all_have_let_go_of_a_failed_disk(tmp_path: Path) -> None:
    folder = side_folder(tmp_path / "store.db")
    slow, failed, late = Users(folder), Users(folder), Users(folder)
    slow.join(within_seconds=0)
    failed.join(within_seconds=0)
    before = slow.must_let_go
    failed.note_failing()
    failed.close()
    assert (before, slow.must_let_go) == (False, True)
    assert not late.be_alone()
    with pytest.raises(OthersInTheWay):
        late.join(within_seconds=0)
    slow.close()
    late.close()
    late = Users(folder)
    assert late.be_alone()
    late.note_mended()
    late.join(within_seconds=0)
    assert not late.must_let_go
    late.close()


def test_who_is_alone_with_the_file_keeps_others_out(tmp_path: Path) -> None:
    folder = side_folder(tmp_path / "store.db")
    alone, other = Users(folder), Users(folder)
    assert alone.be_alone()
    with pytest.raises(OthersInTheWay):
        other.join(within_seconds=0.01)
    alone.close()
    other.join(within_seconds=0)
    other.close()


async def test_a_busy_one_lets_another_have_its_turn(join: Join) -> None:
    busy, other = await join(), await join()
    is_over = False

    async def keep_busy() -> None:
        while not is_over:
            await send(busy, b"x")

    crowd = asyncio.gather(*[keep_busy() for _ in range(8)])
    await until(lambda: busy.commits > 5)
    before = busy.commits
    for _ in range(10):
        await send(other, b"y")
    meanwhile = busy.commits - before
    is_over = True
    await crowd
    # By turns: one for each of the other's, and some that it takes to get going.
    assert meanwhile <= 40


async def test_a_paused_one_in_the_queue_does_not_stop_the_others(join: Join) -> None:
    store = await join()
    paused = FileTurn(side_folder(store.path) / "queue")
    assert paused.take()
    assert await send(store, b"a") == [1]
    paused.close()


async def test_a_turn_that_does_not_come_is_refused_and_the_store_goes_on(
    tmp_path: Path, join: Join
) -> None:
    holder = await join()
    hurried = SharedSqliteStore(0, tmp_path / "store.db", pacing=Pacing(busy_timeout_ms=20))
    await hurried.start()
    reached, released = threading.Event(), threading.Event()

    def hold(_: SqliteDatabase) -> None:
        reached.set()
        assert released.wait(20)

    held = holder._lane.submit(hold, is_synced=False)
    await until(reached.is_set)
    with pytest.raises(StoreUnavailable, match="others keep it busy"):
        await send(hurried, b"refused")
    released.set()
    await held
    assert hurried.status().state is StoreState.ONLINE
    assert await send(hurried, b"a")
    await hurried.close()


async def test_ids_that_one_has_forgotten_go_from_the_memory_of_the_other(
    join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_database, "FORGOTTEN_EVERY_SECONDS", 0)
    first, second = await join(), await join()
    await send_ids(first, "a", "b")
    await send_ids(first, "c", now=after(1))

    def known(database: SqliteDatabase) -> int:
        assert isinstance(database, shared_database.SharedSqliteDatabase)
        return len(database.seen.of(MAIN))

    assert await second._lane.submit(known, is_synced=False) == 3
    await forget(first, NOON)
    sizes = [3]

    async def look() -> None:
        while sizes[-1] != 1:
            sizes.append(await second._lane.submit(known, is_synced=False))

    await asyncio.wait_for(look(), 20)


async def test_who_does_not_hear_any_more_is_forgotten(join: Join) -> None:
    store = await join()
    dead = side_folder(store.path) / "hints-1-gone"
    dead.touch()
    store.tell([QueueNumber(1)])
    await until(lambda: not dead.exists())


async def test_a_long_path_keeps_nobody_from_hearing(tmp_path: Path, join: Join) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    heard: list[object] = []
    listening = SharedSqliteStore(0, folder / "store.db", pacing=HASTY)
    listening.listen(heard.append)
    await listening.start()
    telling = await join(folder / "store.db")
    telling.tell([MAIN])
    await until(lambda: bool(heard))
    await listening.close()


async def test_a_file_that_was_shared_serves_one_alone(tmp_path: Path, join: Join) -> None:
    shared = await join()
    await send(shared, b"a")
    await shared.close()
    alone = SqliteStore(0, tmp_path / "store.db")
    await alone.start()
    assert await contents_of(alone) == [b"a"]
    assert not alone.is_shared
    await alone.close()
