"""The lane: cancellation, closing, bounds, and work that goes wrong."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from bendybus.model.errors import MessagingInternal, QuotaExceeded, ServerBusy, StoreUnavailable
from bendybus.model.store_status import StoreState
from bendybus.store.sql import lane as lane_module
from bendybus.store.sql.lane import Lane
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.failures import SqliteFailures

StoreLane = Lane[SqliteDatabase]


class Brake:
    """Holds the lane's thread in the middle of a work until the test lets go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def __call__(self, _database: SqliteDatabase) -> str:
        self.reached.set()
        assert self.released.wait(10)
        return "released"


@pytest.fixture
async def lane(tmp_path: Path) -> AsyncIterator[StoreLane]:
    lane = Lane(
        0,
        partial(open_database, tmp_path / "store.db", Pacing()),
        SqliteFailures(),
        retry_seconds=0.001,
        let_go=lambda: None,
    )
    await lane.start()
    yield lane
    await lane.close()


@pytest.fixture
def brake() -> Brake:
    return Brake()


async def hold(lane: StoreLane, brake: Brake) -> "asyncio.Future[str]":
    """Keep the lane busy."""
    held = lane.submit(brake, is_synced=False)
    await asyncio.get_running_loop().run_in_executor(None, brake.reached.wait)
    return held


def put(name: str, database: SqliteDatabase) -> str:
    """Write an entity of that name."""
    database.execute(
        "INSERT INTO entity (name, kind, version, properties, places)"
        " VALUES (?, 'queue', 1, '', '')",
        (name,),
    )
    return name


def names(database: SqliteDatabase) -> list[str]:
    """Return the entities there are."""
    return [name for (name,) in database.execute("SELECT name FROM entity ORDER BY number")]


def put_then_fail(error: Exception, database: SqliteDatabase) -> None:
    """Write, then go wrong."""
    put("undone", database)
    raise error


async def test_what_waits_is_committed_together(lane: StoreLane, brake: Brake) -> None:
    held = await hold(lane, brake)
    calls = [lane.submit(partial(put, f"n{n}"), is_synced=True) for n in range(20)]
    commits = lane.commits
    brake.released.set()
    assert await held == "released"
    assert await asyncio.gather(*calls) == [f"n{n}" for n in range(20)]
    assert lane.commits == commits + 2


async def test_a_commit_takes_a_bounded_number_of_callers(
    lane: StoreLane, brake: Brake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "JOBS_TOGETHER_MAX", 8)
    held = await hold(lane, brake)
    calls = [lane.submit(partial(put, f"n{n}"), is_synced=True) for n in range(20)]
    commits = lane.commits
    brake.released.set()
    await asyncio.gather(held, *calls)
    assert lane.commits == commits + 1 + 3


async def test_a_lane_with_too_much_waiting_refuses_more(
    lane: StoreLane, brake: Brake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_module, "JOBS_WAITING_MAX", 2)
    held = await hold(lane, brake)
    waiting = [lane.submit(names, is_synced=False) for _ in range(2)]
    with pytest.raises(ServerBusy):
        await lane.submit(names, is_synced=False)
    brake.released.set()
    await asyncio.gather(held, *waiting)
    assert await lane.submit(names, is_synced=False) == []


async def test_work_cancelled_before_it_begins_is_not_done(lane: StoreLane, brake: Brake) -> None:
    held = await hold(lane, brake)
    cancelled = lane.submit(partial(put, "cancelled"), is_synced=True)
    kept = lane.submit(partial(put, "kept"), is_synced=True)
    cancelled.cancel()
    brake.released.set()
    await asyncio.gather(held, kept)
    assert await lane.submit(names, is_synced=False) == ["kept"]


async def test_work_cancelled_after_it_began_is_done(lane: StoreLane, brake: Brake) -> None:
    held = await hold(lane, brake)
    held.cancel()
    brake.released.set()
    assert await lane.submit(partial(put, "after"), is_synced=True) == "after"
    assert lane.state is StoreState.ONLINE


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (QuotaExceeded("full"), QuotaExceeded),
        (ZeroDivisionError("a defect"), MessagingInternal),
        (apsw.ConstraintError("a defect"), MessagingInternal),
        (apsw.TooBigError("too large a request"), MessagingInternal),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "together"])
async def test_work_that_goes_wrong_is_undone_and_harms_no_other(
    lane: StoreLane, brake: Brake, error: Exception, expected: type[Exception], is_alone: bool
) -> None:
    if is_alone:
        with pytest.raises(expected):
            await lane.submit(partial(put_then_fail, error), is_synced=True)
    else:
        held = await hold(lane, brake)
        wrong = lane.submit(partial(put_then_fail, error), is_synced=True)
        right = lane.submit(partial(put, "right"), is_synced=True)
        brake.released.set()
        assert (await held, await right) == ("released", "right")
        with pytest.raises(expected):
            await wrong
    assert await lane.submit(names, is_synced=False) == ([] if is_alone else ["right"])
    assert lane.state is StoreState.ONLINE


async def test_a_failure_inside_work_means_that_nothing_of_anybody_was_written(
    lane: StoreLane, brake: Brake
) -> None:
    held = await hold(lane, brake)
    first = lane.submit(partial(put, "first"), is_synced=True)
    broken = lane.submit(partial(put_then_fail, apsw.IOError("broken")), is_synced=True)
    brake.released.set()
    await held
    outcomes = await asyncio.gather(first, broken, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 2
    await lane.bring_online()
    assert await lane.submit(names, is_synced=False) == []


async def test_closing_answers_all_that_waits_and_refuses_the_rest(
    lane: StoreLane, brake: Brake
) -> None:
    held = await hold(lane, brake)
    waiting = [lane.submit(partial(put, f"n{n}"), is_synced=True) for n in range(5)]
    closing = asyncio.ensure_future(lane.close())
    await asyncio.sleep(0)
    late = lane.submit(names, is_synced=False)
    with pytest.raises(StoreUnavailable):
        await lane.take_offline("too late")
    brake.released.set()
    await closing
    assert await asyncio.gather(held, *waiting) == ["released", *(f"n{n}" for n in range(5))]
    with pytest.raises(StoreUnavailable):
        await late
    with pytest.raises(StoreUnavailable):
        await lane.submit(names, is_synced=False)
    assert not [thread for thread in threading.enumerate() if thread.name == "store-0"]


async def test_closing_may_be_cancelled_and_asked_for_again(lane: StoreLane, brake: Brake) -> None:
    held = await hold(lane, brake)
    closing = asyncio.ensure_future(lane.close())
    await asyncio.sleep(0)
    closing.cancel()
    brake.released.set()
    await lane.close()
    await lane.close()
    assert await held == "released"


async def test_a_lane_whose_file_opens_with_a_defect_lives_to_say_so() -> None:
    def open_file() -> SqliteDatabase:
        raise ZeroDivisionError("a defect")

    lane = Lane(4, open_file, SqliteFailures(), retry_seconds=0.001, let_go=lambda: None)
    await lane.start()
    assert (lane.state, lane.reason) == (StoreState.FAILED, "a defect (ZeroDivisionError)")
    with pytest.raises(StoreUnavailable, match="a defect"):
        await lane.bring_online()
    await lane.close()


def test_a_lane_outlives_the_loop_that_it_answers_to(tmp_path: Path) -> None:
    lane = Lane(
        5,
        partial(open_database, tmp_path / "store.db", Pacing()),
        SqliteFailures(),
        retry_seconds=1,
        let_go=lambda: None,
    )
    brake = Brake()

    async def leave_in_the_middle() -> None:
        await lane.start()
        assert not (await hold(lane, brake)).done()

    asyncio.run(leave_in_the_middle())
    brake.released.set()
    asyncio.run(lane.close())
    assert lane.state is StoreState.OFFLINE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has threads that give way")
async def test_a_lane_that_is_woken_takes_no_processor_from_the_loop(lane: StoreLane) -> None:
    def policy(_database: SqliteDatabase) -> int:
        return os.sched_getscheduler(0)

    assert await lane.submit(policy, is_synced=False) == os.SCHED_BATCH
    assert os.sched_getscheduler(0) != os.SCHED_BATCH, "of the loop's own thread"


async def test_where_threads_may_not_give_way_the_lane_works_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    opened = partial(open_database, tmp_path / "store.db", Pacing())
    lane = Lane(0, opened, SqliteFailures(), retry_seconds=0.001, let_go=lambda: None)
    await lane.start()
    assert await lane.submit(lambda _: "done", is_synced=False) == "done"
    await lane.close()
