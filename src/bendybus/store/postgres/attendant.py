"""What a front end needs of a store beside its traffic, on a session and a thread of its own.

It listens for what other front ends tell and tells them in turn, tries every second to be the
store's caretaker, looks whether the catalog was changed while the lane has nothing to do, and holds
the turn to change it. Its session is never idle for longer than a second: the server ends one that
is, and with it whatever it held, so a front end that is paused or cut off holds up nobody.
"""

import asyncio
import contextlib
import json
import logging
import os
import queue
import secrets
import select
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from time import monotonic
from typing import Any, Final, TypeVar

import psycopg

from bendybus.model.errors import ServerBusy, StartRefused, StoreUnavailable
from bendybus.model.ids import Instant, QueueNumber
from bendybus.store.postgres import locks
from bendybus.store.postgres.connecting import ANSWER_SECONDS, StoreUnreachable, connect
from bendybus.store.postgres.wire import Wire
from bendybus.store.sharing import Heard

# How often the size of the database is asked for, which takes a look at every file of it.
SIZED_BEATS: Final = 30
# A session that says nothing for so long is ended by the server.
SILENT_SECONDS: Final = 5
# What was confirmed longer ago than this may be another's by now. Less than the above.
CONFIRMED_SECONDS: Final = 3.0
# How long to wait for the turn to change the catalog, and how often to ask for it.
TURN_SECONDS: Final = 30.0
TURN_ASKED_SECONDS: Final = 0.02
# What is told within this time is told at once.
TOLD_SECONDS: Final = 0.003
# More than these are told as "any": a notification has a bound of 8,000 bytes.
QUEUES_TOLD_MAX: Final = 500

CHANNEL: Final = "bendybus"
_NOTIFY: Final = "SELECT pg_notify($1::text, $2::text)"
_GENERATION: Final = "SELECT number FROM generation"
_SIZE: Final = "SELECT pg_database_size(current_database())"
_TIME: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Attendant:
    """Sits beside a lane. Its methods are called in the loop."""

    def __init__(
        self,
        number: int,
        find_url: Callable[[], str],
        take_over: Callable[[], None],
        is_online: Callable[[], bool],
        *,
        beat_seconds: float,
    ) -> None:
        self._number = number
        # Whether the lane serves. If not, another front end had better look after the store.
        self._is_online = is_online
        self._beat_seconds = beat_seconds
        # Says where the store is now; it may be moved.
        self._find_url = find_url
        # Ends what the caretaker before us held, and says so by `has_taken_over`.
        self._take_over = take_over
        self._heard: Heard = _nobody
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_ending = False
        # Tells our own notifications from those of others.
        self._name = secrets.token_hex(8)
        self._asked: queue.SimpleQueue[tuple[Callable[[Wire], Any], asyncio.Future[Any]]] = (
            queue.SimpleQueue()
        )
        self._to_tell: set[int] = set()
        self._told_at = 0.0
        self._wake_out, self._wake_in = -1, -1
        self._turn = asyncio.Lock()
        self._is_connected = False
        # Whether the place of the caretaker is ours, and when that was last certain.
        self.holds_place = False
        self._confirmed_at = 0.0
        # Whether what the caretaker before us held was ended.
        self.has_taken_over = False
        # The catalog's, as of the last beat or commit.
        self.generation = 0
        # Of the whole database, as of a while ago.
        self.size_bytes = 0
        self._beats = 0

    @property
    def is_caretaker(self) -> bool:
        """Whether the store is in this front end's care, and was so a moment ago."""
        is_ours = self.holds_place and self.has_taken_over and self._is_online()
        return is_ours and monotonic() - self._confirmed_at < CONFIRMED_SECONDS

    def listen(self, heard: Heard) -> None:
        """Call a function in the loop with what others tell."""
        self._heard = heard

    async def start(self) -> None:
        """Begin; returns when the first attempt to connect has succeeded or failed."""
        self._loop = asyncio.get_running_loop()
        tried = self._loop.create_future()
        self._wake_out, self._wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(
            target=self._run, args=(tried,), name=f"attendant-{self._number}", daemon=True
        )
        self._thread.start()
        await tried

    async def close(self) -> None:
        """Give back what is held and end. May be called again."""
        if self._thread is None:
            return
        self._is_ending = True
        self._wake()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)
        self._thread = None
        os.close(self._wake_out)
        os.close(self._wake_in)

    def tell(self, queues: Sequence[QueueNumber]) -> None:
        """Tell other front ends of queues, soon. Nothing is told while the server is away."""
        if self._is_connected and not self._is_ending:
            is_first = not self._to_tell
            self._to_tell.update(queues)
            if is_first:
                self._wake()

    @contextlib.asynccontextmanager
    async def catalog_turn(self) -> AsyncIterator[None]:
        """Hold the turn to change the catalog. It is lost with the session."""
        if not self._is_online():
            raise self._away()
        # The session may have the same lock many times: among ourselves we take turns here.
        async with self._turn:
            deadline = monotonic() + TURN_SECONDS
            while not await self._ask(lambda wire: _number(wire, locks.TRY_CATALOG)):
                if monotonic() > deadline:
                    raise ServerBusy(
                        f"Another front end changes the catalog of messaging store {self._number}."
                    )
                await asyncio.sleep(TURN_ASKED_SECONDS)
            try:
                yield
            finally:
                with contextlib.suppress(StoreUnavailable):
                    await self._ask(lambda wire: _number(wire, locks.LEAVE_CATALOG))

    async def server_time(self) -> Instant:
        """Return the time at the server."""
        return Instant(await self._ask(lambda wire: _number(wire, _TIME)))

    def _ask(self, work: Callable[[Wire], T]) -> "asyncio.Future[T]":
        assert self._loop is not None, "it is not started"
        future: asyncio.Future[T] = self._loop.create_future()
        if self._is_connected and not self._is_ending:
            self._asked.put((work, future))
            self._wake()
        else:
            future.set_exception(self._away())
        return future

    def _away(self) -> StoreUnavailable:
        return StoreUnavailable(self._number, "it is not online")

    def note_generation(self, generation: int) -> None:
        """Note what somebody read. From any thread: if two do at once, the next beat is right."""
        self.generation = max(self.generation, generation)

    def hurry(self) -> None:
        """Try at once to connect, if not connected: the store is there. From any thread."""
        self._wake()

    def _wake(self) -> None:
        if self._thread is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_in, b"!")

    # What follows runs in the attendant's own thread.

    def _run(self, tried: "asyncio.Future[None]") -> None:
        while not self._is_ending:
            try:
                self._be_connected(self._find_url(), tried)
            except (psycopg.Error, StoreUnreachable, StartRefused) as error:
                # The lane says so, too; it is the one that matters.
                _log.debug("the attendant of store %d: %s", self._number, error)
                self._in_loop(_settle, tried)
                self._refuse_asked()
                self._rest()

    def _be_connected(self, url: str, tried: "asyncio.Future[None]") -> None:
        """Attend to the store as long as the session lives and the store is there."""
        wire = self._connect(url)
        try:
            self._beat(wire)
            self._is_connected = True
            self._in_loop(_settle, tried)
            # What was told while nobody listened is lost.
            self._in_loop(self._heard, ())
            self._attend(wire, url)
        finally:
            self._is_connected = self.holds_place = self.has_taken_over = False
            wire.close()
            self._refuse_asked()

    def _connect(self, url: str) -> Wire:
        settings = {
            "idle_session_timeout": f"{SILENT_SECONDS}s",
            # What it writes are hints.
            "synchronous_commit": "off",
        }
        connection = connect(url, purpose=f"store {self._number} attendant", settings=settings)
        wire = Wire(connection, patience=ANSWER_SECONDS)
        wire.send("listen", f"LISTEN {CHANNEL}")
        wire.answers()
        return wire

    def _attend(self, wire: Wire, url: str) -> None:
        next_beat = monotonic() + self._beat_seconds
        poll = select.poll()
        poll.register(wire.socket, select.POLLIN)
        poll.register(self._wake_out, select.POLLIN)
        while not self._is_ending and self._find_url() == url:
            now = monotonic()
            until = next_beat
            if self._to_tell:
                until = min(until, self._told_at + TOLD_SECONDS)
            if until > now:
                poll.poll((until - now) * 1000)
                self._forget_wakes()
            self._answer_asked(wire)
            now = monotonic()
            if self._to_tell and now >= self._told_at + TOLD_SECONDS:
                self._tell_now(wire)
                self._told_at = now
            if now >= next_beat:
                self._beat(wire)
                next_beat = now + self._beat_seconds
            self._hear(wire)
        self._leave(wire)

    def _beat(self, wire: Wire) -> None:
        """Make sure of being heard, and look at what others may have done."""
        asked_at = monotonic()
        self.note_generation(_number(wire, _GENERATION))
        if not self._is_online():
            self._leave(wire)
        elif not self.holds_place:
            self.has_taken_over = False
            self.holds_place = bool(_number(wire, locks.TRY_CARETAKER))
        # While the session lives it has what it had.
        self._confirmed_at = asked_at
        if self.holds_place and not self.has_taken_over:
            self._in_loop(self._take_over)
        if self._beats % SIZED_BEATS == 0:
            self.size_bytes = _number(wire, _SIZE)
        self._beats += 1

    def _tell_now(self, wire: Wire) -> None:
        queues, self._to_tell = self._to_tell, set()
        told = sorted(queues) if len(queues) <= QUEUES_TOLD_MAX else []
        wire.send("notify", _NOTIFY, (CHANNEL, json.dumps([self._name, told])))
        wire.answers()

    def _hear(self, wire: Wire) -> None:
        found: set[int] = set()
        is_any = False
        for payload in wire.notifications():
            name, queues = json.loads(payload)
            if name != self._name:
                found.update(queues)
                is_any = is_any or not queues
        if is_any:
            self._in_loop(self._heard, ())
        elif found:
            self._in_loop(self._heard, tuple(map(QueueNumber, found)))

    def _answer_asked(self, wire: Wire) -> None:
        while True:
            try:
                work, future = self._asked.get_nowait()
            except queue.Empty:
                return
            try:
                answer = work(wire)
            except psycopg.Error:
                self._in_loop(_fail, future, self._away())
                raise
            self._in_loop(_settle, future, answer)

    def _refuse_asked(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._in_loop(_fail, self._asked.get_nowait()[1], self._away())

    def _leave(self, wire: Wire) -> None:
        """Let another be caretaker at once: the server may take a while to see the session end."""
        if self.holds_place:
            self.holds_place = False
            _number(wire, locks.LEAVE_CARETAKER)

    def _rest(self) -> None:
        select.select([self._wake_out], [], [], self._beat_seconds)
        self._forget_wakes()

    def _forget_wakes(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_out, 4096):
                pass

    def _in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None
        # The loop is gone when the process is being torn down; nobody waits any more then.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


def _number(wire: Wire, text: str) -> int:
    """Execute a statement that returns one number, or one truth."""
    wire.send(text, text)
    [(number,)] = wire.answers()[0].rows()
    return int(number)


def _nobody(queues: Sequence[QueueNumber]) -> None:
    """Hear nothing."""


def _settle(future: "asyncio.Future[Any]", answer: object = None) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
