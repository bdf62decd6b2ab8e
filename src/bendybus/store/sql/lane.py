"""One thread per store, and group commit.

What waits while a commit runs is committed together, as one transaction. Each caller's work has
its own savepoint, so a refusal undoes that work alone.

    ONLINE ── take offline ──► OFFLINE ── bring online ──► ONLINE
      │                                                       ▲
      └── the database fails ──► FAILED ── retried by itself ─┘

A failure in the middle leaves it open whether the commit reached the disk: those callers get
`StoreFailed`. Everybody else gets `StoreUnavailable`: nothing of theirs was written. A file that
is damaged, or not ours, does not heal by itself and is not retried: that one waits to be brought
online.
"""

import asyncio
import contextlib
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from bendybus.model.errors import (
    BusError,
    MessagingInternal,
    ServerBusy,
    StoreFailed,
    StoreUnavailable,
)
from bendybus.model.store_status import StoreState
from bendybus.store.figures import COMMIT_CALLERS, COMMIT_SECONDS, Happened, Histogram
from bendybus.store.sql import litter
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.failures import Elsewhere, Failures

JOBS_TOGETHER_MAX: Final = 256
JOBS_WAITING_MAX: Final = 10_000
# How often the same work is begun in all, if the engine says that it came in others' way.
TRIES_MAX: Final = 3

_log = logging.getLogger(__name__)
T = TypeVar("T")
D = TypeVar("D", bound=SqlDatabase)


@dataclass(slots=True)
class _Job(Generic[D, T]):
    work: Callable[[D], T]
    is_synced: bool
    is_one_append: bool
    future: "asyncio.Future[T]"


@dataclass(slots=True)
class _Control:
    """A change of state asked for by the owner, in turn with the jobs."""

    action: Callable[[], None]
    future: "asyncio.Future[None]"


_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Lane(Generic[D]):
    """Runs work on the database, in order, many callers to a commit."""

    def __init__(
        self,
        number: int,
        open_database: Callable[[], D],
        failures: Failures,
        *,
        retry_seconds: float,
        let_go: Callable[[], None],
    ) -> None:
        self.number = number
        self.state = StoreState.OFFLINE
        self.reason = "not started"
        self.commits = 0
        # How many rows were ever changed, as of the last commit: while it is the same, so is what
        # the store holds.
        self.changes = 0
        # How often the database was opened: a change tells that the store was away.
        self.openings = 0
        self.fragments_held = 0
        # Of a database that others share: how often its catalog was changed, and whether this
        # process looks after the store.
        self.generation = 0
        self.is_caretaker = False
        self._attended_at = 0.0
        # Figures for operators, since the broker started.
        self.commit_seconds = Histogram(COMMIT_SECONDS)
        self.commit_callers = Histogram(COMMIT_CALLERS)
        self.failures = 0
        self.write_backs = 0
        self.traffic: dict[Happened, int] = {}
        self._open_database = open_database
        self._failures = failures
        # Makes others who have the database open close it.
        self._let_go = let_go
        self._retry_seconds = retry_seconds
        self._is_retried = False
        self._database: D | None = None
        self._waiting: queue.SimpleQueue[_Job[D, Any] | _Control] = queue.SimpleQueue()
        # What was in hand when the store was found to be elsewhere.
        self._left_over: Sequence[_Job[D, Any]] = ()
        self._is_closed = False
        self._is_ending = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Open the database. A store that cannot be opened starts as FAILED and is retried."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"store-{self.number}", daemon=True)
        self._thread.start()
        await self._control(self._open)

    async def close(self) -> None:
        """Finish what waits, write the log back, end the thread. May be called again."""
        if self._thread is None:
            return
        if not self._is_closed:
            # From here on nothing more is queued, so nothing can be left behind unanswered.
            self._is_closed = True
            assert self._loop is not None
            self._waiting.put(_Control(self._end, self._loop.create_future()))
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._thread = None

    def submit(
        self, work: Callable[[D], T], *, is_synced: bool, is_one_append: bool = False
    ) -> "asyncio.Future[T]":
        """Queue work; the future ends when its commit has.

        Cancelling the future stops work that has not begun; work that has begun is committed.
        """
        assert self._loop is not None, "the lane is not started"
        future: asyncio.Future[T] = self._loop.create_future()
        if self.state is not StoreState.ONLINE or self._is_closed:
            future.set_exception(StoreUnavailable(self.number, self.reason or "it is closing"))
        elif self._waiting.qsize() >= JOBS_WAITING_MAX:
            future.set_exception(ServerBusy(f"Messaging store {self.number} is overloaded."))
        else:
            self._waiting.put(_Job(work, is_synced, is_one_append, future))
        return future

    @property
    def waiting(self) -> int:
        """How many calls wait for their turn."""
        return self._waiting.qsize()

    async def take_offline(self, reason: str) -> None:
        """Stop serving after what waits now."""
        await self._control(lambda: self._go_offline(reason))

    async def bring_online(self) -> None:
        """Open again. Raises `StoreUnavailable` if that fails; it is then retried by itself."""
        await self._control(self._open)
        if self.state is not StoreState.ONLINE:
            raise StoreUnavailable(self.number, self.reason)

    async def leave(self, work: Callable[[D], None]) -> None:
        """Stand still, in turn with what waits, do some last work, and close the database for good.

        What is asked for from then on waits until `pass_on`. If the work raises, so does this, and
        the lane goes on as if nothing had been asked.
        """
        raised: list[Exception] = []

        def action() -> None:
            database = self._database
            if database is None:
                raised.append(StoreUnavailable(self.number, self.reason))
                return
            try:
                work(database)
            except Exception as error:  # noqa: BLE001 - whatever it is, the lane goes on
                raised.append(error)
                return
            self._end_for_good()

        await self._control(action)
        if raised:
            raise raised[0]

    async def follow(self) -> None:
        """Let go of a database that others have moved away; what is asked for waits as in `leave`.

        The lane may have found that out by itself.
        """
        assert self._loop is not None, "the lane is not started"
        assert self._thread is not None, "the lane is not started"
        self._waiting.put(_Control(self._end_for_good, self._loop.create_future()))
        await self._loop.run_in_executor(None, self._thread.join)

    def pass_on(self, successor: "Lane[Any]") -> None:
        """Hand all that waits, after `leave`, to the lane of the place that the store is at now."""
        self.state, self.reason = StoreState.OFFLINE, "it was moved"
        waiting: list[_Job[D, Any] | _Control] = list(self._left_over)
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.append(self._waiting.get_nowait())
        for each in waiting:
            if isinstance(each, _Job):
                successor._waiting.put(each)  # noqa: SLF001 - one of its kind
            elif not each.future.done():
                # It is about a database that this lane has no more.
                each.future.set_result(None)

    async def _control(self, action: Callable[[], None]) -> None:
        assert self._loop is not None, "the lane is not started"
        if self._is_closed:
            raise StoreUnavailable(self.number, "it is closed")
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put(_Control(action, future))
        await future

    # What follows runs in the lane's own thread.

    def _run(self) -> None:
        give_way()
        while not self._is_ending:
            try:
                first = self._waiting.get(timeout=self._patience())
            except queue.Empty:
                if self._database is None:
                    self._open()
                else:
                    self._attend(self._database)
                continue
            jobs: list[_Job[D, Any]] = []
            control = self._gather(first, jobs)
            if jobs:
                self._deliver(self._commit(jobs))
                self._tidy_up()
            self._attend_if_due()
            if control is not None:
                control.action()
                self._deliver([(control.future, None, None)])

    def _patience(self) -> float | None:
        if self._database is not None:
            return self._database.attend_seconds
        return self._retry_seconds if self._is_retried else None

    def _gather(self, first: _Job[D, Any] | _Control, jobs: list[_Job[D, Any]]) -> _Control | None:
        """Take what waits, up to a bound or a change of state."""
        entry: _Job[D, Any] | _Control = first
        while True:
            if isinstance(entry, _Control):
                return entry
            if not entry.future.cancelled():
                jobs.append(entry)
            if len(jobs) == JOBS_TOGETHER_MAX:
                return None
            try:
                entry = self._waiting.get_nowait()
            except queue.Empty:
                return None

    def _commit(self, jobs: Sequence[_Job[D, Any]], tries_left: int = TRIES_MAX) -> list[_Outcome]:
        database = self._database
        if database is None:
            refusal = StoreUnavailable(self.number, self.reason)
            return [(job.future, None, refusal) for job in jobs]
        is_committing = False
        begun = perf_counter()
        try:
            if len(jobs) == 1 and jobs[0].is_one_append:
                database.begin_one(is_synced=jobs[0].is_synced)
            else:
                database.begin(is_synced=any(job.is_synced for job in jobs))
            if len(jobs) == 1:
                outcomes = [self._work_alone(database, jobs[0])]
            else:
                outcomes = [self._work_together(database, job) for job in jobs]
            is_committing = True
            database.commit()
        except Elsewhere:
            self._left_over = jobs
            self._end_for_good()
            return []
        except self._failures.every as error:
            is_unwritten = not is_committing or self._failures.is_unwritten(error)
            # Of a single caller, what was sent and not waited for comes back with the commit.
            is_of_caller = len(jobs) == 1 and self._failures.is_of_request(error)
            is_bearable = is_of_caller or self._is_in_the_way(database, error)
            if is_unwritten and is_bearable and self._is_undone(database):
                if tries_left > 1 and self._failures.is_repeated(error):
                    return self._commit(jobs, tries_left - 1)
                told: BusError = StoreUnavailable(self.number, "others keep it busy")
                if is_of_caller:
                    told = self._refusal(error)
                return [(job.future, None, told) for job in jobs]
            self._fail(error)
            failure: BusError = StoreFailed(self.number, self.reason)
            if is_unwritten:
                failure = StoreUnavailable(self.number, self.reason)
            return [(job.future, None, failure) for job in jobs]
        self.commit_seconds.add(perf_counter() - begun)
        self.commit_callers.add(len(jobs))
        database.traffic.count_into(self.traffic)
        self.commits += 1
        self.changes = database.changes_made
        self._note(database)
        return outcomes

    def _is_in_the_way(self, database: D, error: Exception) -> bool:
        """Say whether others kept a commit from being made, and nothing is wrong."""
        is_passing = database.is_shared and self._failures.is_passing(error)
        return is_passing or self._failures.is_repeated(error)

    def _is_undone(self, database: D) -> bool:
        """Undo a commit; say whether the database is as good as before."""
        try:
            database.undo()
        except self._failures.every:
            return False
        database.traffic.undo_all()
        return True

    def _work_alone(self, database: D, job: _Job[D, Any]) -> _Outcome:
        """Do the only work of a commit; a refusal rolls the whole of it back."""
        try:
            return job.future, job.work(database), None
        except Exception as error:  # noqa: BLE001 - any defect must reach its caller, not the lane
            refusal = self._refusal(error)
            database.undo()
            return job.future, None, refusal

    def _work_together(self, database: D, job: _Job[D, Any]) -> _Outcome:
        """Do one of several works of a commit; a refusal undoes this one."""
        database.begin_caller()
        try:
            outcome: _Outcome = job.future, job.work(database), None
            database.finish_work()
        except Exception as error:  # noqa: BLE001 - any defect must reach its caller, not the lane
            outcome = job.future, None, self._refusal(error)
            database.undo_caller()
        database.end_caller()
        return outcome

    def _refusal(self, error: Exception) -> BusError:
        """Return what the caller is told. Raises the error again if it is the database's own."""
        if isinstance(error, BusError):
            return error
        if isinstance(error, self._failures.every) and not self._failures.is_of_request(error):
            raise error
        _log.error("a store call failed", exc_info=error)
        return MessagingInternal(f"{type(error).__name__}: {error}")

    def _note(self, database: D) -> None:
        """Note what others ask of the lane and the database knows."""
        self.fragments_held = database.fragments_held
        self.generation = database.generation
        self.is_caretaker = database.is_caretaker

    def _attend_if_due(self) -> None:
        database = self._database
        if database is None or database.attend_seconds is None:
            return
        if perf_counter() - self._attended_at >= database.attend_seconds:
            self._attend(database)

    def _attend(self, database: D) -> None:
        """Look at what others did, between commits or for lack of any."""
        self._attended_at = perf_counter()
        try:
            has_become_caretaker = database.attend()
        except self._failures.every as error:
            if not self._failures.is_passing(error):
                self._fail(error)
            return
        self._note(database)
        if has_become_caretaker:
            self.openings += 1

    def _tidy_up(self) -> None:
        """Delete litter, and do what was put off, after the callers have their answer."""
        database = self._database
        if database is None:
            return
        try:
            if litter.is_much(database):
                database.begin(is_synced=False)
                litter.collect(database)
                database.commit()
            if database.write_back():
                self.write_backs += 1
        except self._failures.every as error:
            if not self._failures.is_passing(error):
                self._fail(error)

    def _open(self) -> None:
        if self._database is not None or self._is_ending:
            return
        try:
            self._let_go()
            self._database = self._open_database()
        except Exception as error:  # noqa: BLE001 - whatever it is, the lane must live to say so
            self._fail(error)
            return
        self._attended_at = perf_counter()
        self._note(self._database)
        self.state, self.reason, self._is_retried = StoreState.ONLINE, "", False
        # Last, so that whoever sees the number change finds the store online.
        self.openings += 1
        _log.info("store %d online", self.number, extra={"store": self.number})

    def _fail(self, error: Exception) -> None:
        reason = self._failures.description(error)
        self.failures += 1
        if self.state is not StoreState.FAILED or self.reason != reason:
            _log.error("store %d failed: %s", self.number, reason, extra={"store": self.number})
        self.state, self.reason = StoreState.FAILED, reason
        self._is_retried = not self._failures.is_lasting(error)
        self.is_caretaker = False
        self._let_go()
        database, self._database = self._database, None
        if database is not None:
            database.abandon()

    def _go_offline(self, reason: str) -> None:
        self.state, self.reason, self._is_retried = StoreState.OFFLINE, reason, False
        self.is_caretaker = False
        self._let_go()
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(*self._failures.every):
                database.close()

    def _end_for_good(self) -> None:
        """Close the database, and take nothing any more: all that waits is for another lane."""
        self._let_go()
        self._is_ending = True
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(*self._failures.every):
                database.close()

    def _end(self) -> None:
        self._is_ending = True
        self._go_offline("the broker is stopping")

    def _deliver(self, outcomes: list[_Outcome]) -> None:
        assert self._loop is not None
        # The loop is gone when the process is being torn down; nobody waits any more then.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle_futures, outcomes)


def _settle_futures(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():  # Its caller was cancelled.
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)


def give_way() -> None:
    """Have this thread, and those it starts, wait for a free processor when it is woken.

    A lane is woken by the loop, which has the interpreter while it does so: in its place the lane
    could do nothing but wait for that (decisions/0032). Linux alone knows it, and not every sandbox
    allows it.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
