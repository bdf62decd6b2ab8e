"""One thread per store, and group commit.

What waits while a commit runs is committed together, as one transaction. Each caller's work has
its own savepoint, so a refusal undoes that work alone.

    ONLINE ── take offline ──► OFFLINE ── bring online ──► ONLINE
      │                                                       ▲
      └── the database fails ──► FAILED ── retried by itself ─┘

A failure in the middle leaves it open whether the commit reached the disk: those callers get
`StoreFailed`. Everybody else gets `StoreUnavailable`: nothing of theirs was written.
"""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import apsw

from bendybus.model.errors import (
    BusError,
    MessagingInternal,
    ServerBusy,
    StartRefused,
    StoreFailed,
    StoreUnavailable,
)
from bendybus.model.store_status import StoreState
from bendybus.store.sqlite.database import REQUEST_ERRORS, Database, OpenDatabase

JOBS_TOGETHER_MAX: Final = 256
JOBS_WAITING_MAX: Final = 10_000
RETRY_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[Database], T]


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Work[T]
    is_synced: bool
    future: "asyncio.Future[T]"


@dataclass(slots=True)
class _Control:
    """A change of state asked for by the owner, in turn with the jobs."""

    action: Callable[[], None]
    future: "asyncio.Future[None]"


_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Lane:
    """Runs work on the database, in order, many callers to a commit."""

    def __init__(self, number: int, open_file: OpenDatabase) -> None:
        self.number = number
        self.state = StoreState.OFFLINE
        self.reason = "not started"
        self.commits = 0
        self.fragments_held = 0
        self._open_file = open_file
        self._database: Database | None = None
        self._waiting: queue.SimpleQueue[_Job[Any] | _Control] = queue.SimpleQueue()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Open the database. A store that cannot be opened starts as FAILED and is retried."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"store-{self.number}", daemon=True)
        self._thread.start()
        await self._control(self._open)

    async def close(self) -> None:
        """Finish what waits, write the log back, end the thread."""
        if self._thread is None:
            return
        await self._control(self._close)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._thread = None

    def submit(self, work: Work[T], *, is_synced: bool) -> "asyncio.Future[T]":
        """Queue work; the future ends when its commit has."""
        assert self._loop is not None, "the lane is not started"
        future: asyncio.Future[T] = self._loop.create_future()
        if self.state is not StoreState.ONLINE:
            future.set_exception(StoreUnavailable(self.number, self.reason))
        elif self._waiting.qsize() >= JOBS_WAITING_MAX:
            future.set_exception(ServerBusy(f"Messaging store {self.number} is overloaded."))
        else:
            self._waiting.put(_Job(work, is_synced, future))
        return future

    async def take_offline(self, reason: str) -> None:
        """Stop serving after what waits now."""
        await self._control(lambda: self._shut(StoreState.OFFLINE, reason))

    async def bring_online(self) -> None:
        """Open again. Raises `StoreUnavailable` if that fails; it is then retried by itself."""
        await self._control(self._open)
        if self.state is not StoreState.ONLINE:
            raise StoreUnavailable(self.number, self.reason)

    async def _control(self, action: Callable[[], None]) -> None:
        assert self._loop is not None, "the lane is not started"
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put(_Control(action, future))
        await future

    # What follows runs in the lane's own thread.

    def _run(self) -> None:
        while not self._is_closing:
            try:
                first = self._waiting.get(timeout=self._patience())
            except queue.Empty:
                self._open()
                continue
            jobs: list[_Job[Any]] = []
            control = self._gather(first, jobs)
            if jobs:
                self._deliver(self._commit(jobs))
            if control is not None:
                self._deliver([_perform(control)])

    def _patience(self) -> float | None:
        return RETRY_SECONDS if self.state is StoreState.FAILED else None

    def _gather(self, first: _Job[Any] | _Control, jobs: list[_Job[Any]]) -> _Control | None:
        """Take what waits, up to a bound or a change of state."""
        entry: _Job[Any] | _Control = first
        while True:
            if isinstance(entry, _Control):
                return entry
            jobs.append(entry)
            if len(jobs) == JOBS_TOGETHER_MAX:
                return None
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                return None

    def _commit(self, jobs: Sequence[_Job[Any]]) -> list[_Outcome]:
        database = self._database
        if database is None:
            refusal = StoreUnavailable(self.number, self.reason)
            return [(job.future, None, refusal) for job in jobs]
        is_committing = False
        try:
            database.begin(is_synced=any([job.is_synced for job in jobs]))
            if len(jobs) == 1:
                outcomes = [_work_alone(database, jobs[0])]
            else:
                outcomes = [_work_together(database, job) for job in jobs]
            is_committing = True
            if database.connection.in_transaction:
                database.execute("COMMIT")
        except apsw.Error as error:
            self._fail(error)
            failure: BusError = StoreUnavailable(self.number, self.reason)
            if is_committing:
                failure = StoreFailed(self.number, self.reason)
            return [(job.future, None, failure) for job in jobs]
        self.commits += 1
        self.fragments_held = len(set(database.mains.values()))
        return outcomes

    def _open(self) -> None:
        if self._database is not None:
            return
        try:
            self._database = self._open_file()
        except (apsw.Error, StartRefused, OSError) as error:
            self._fail(error)
            return
        self.state, self.reason = StoreState.ONLINE, ""
        _log.info("store %d online", self.number)

    def _fail(self, error: BaseException) -> None:
        if self.state is not StoreState.FAILED:
            _log.error("store %d failed: %s", self.number, error)
        self._shut(StoreState.FAILED, str(error) or type(error).__name__)

    def _shut(self, state: StoreState, reason: str) -> None:
        self.state, self.reason = state, reason
        database, self._database = self._database, None
        if database is not None:
            # Closing writes the log back; on a failing disk it cannot, and opening will.
            with contextlib.suppress(apsw.Error):
                database.close()

    def _close(self) -> None:
        self._is_closing = True
        self._shut(StoreState.OFFLINE, "the broker is stopping")

    def _deliver(self, outcomes: list[_Outcome]) -> None:
        assert self._loop is not None
        # The loop is gone when the process is being torn down; nobody waits any more then.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle_futures, outcomes)


def _perform(control: _Control) -> _Outcome:
    control.action()
    return control.future, None, None


def _work_alone(database: Database, job: _Job[Any]) -> _Outcome:
    """Do the only work of a commit; a refusal rolls the whole of it back."""
    try:
        return job.future, job.work(database), None
    except REQUEST_ERRORS as error:
        database.execute("ROLLBACK")
        return job.future, None, _internal(error)
    except apsw.Error:
        raise
    except Exception as error:  # noqa: BLE001 - any defect must reach its caller, not the lane
        database.execute("ROLLBACK")
        return job.future, None, error if isinstance(error, BusError) else _internal(error)


def _work_together(database: Database, job: _Job[Any]) -> _Outcome:
    """Do one of several works of a commit; a refusal undoes this one."""
    database.execute("SAVEPOINT caller")
    try:
        outcome: _Outcome = job.future, job.work(database), None
    except REQUEST_ERRORS as error:
        database.execute("ROLLBACK TO caller")
        outcome = job.future, None, _internal(error)
    except apsw.Error:
        raise
    except Exception as error:  # noqa: BLE001 - any defect must reach its caller, not the lane
        database.execute("ROLLBACK TO caller")
        outcome = job.future, None, error if isinstance(error, BusError) else _internal(error)
    database.execute("RELEASE caller")
    return outcome


def _internal(error: BaseException) -> MessagingInternal:
    _log.error("a store call failed", exc_info=error)
    return MessagingInternal(f"{type(error).__name__}: {error}")


def _settle_futures(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():  # Its caller was cancelled.
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
