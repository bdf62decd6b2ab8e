"""Several front ends on one machine: a process that keeps the doors, and workers that serve.

The keeper listens and gives every connection to the worker with the fewest. It opens no store, runs
no loop and starts no thread, so that it can fork a worker at any moment, and whatever a worker does
cannot stop it. A worker whose keeper is gone ends at once, as the broker did that was killed.
"""

import gc
import json
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from bendybus.assemble.data_folder import only_broker_on
from bendybus.assemble.processors import keep_to_processor
from bendybus.assemble.restarts import Restarts
from bendybus.assemble.stores import Crew, stores_at_servers
from bendybus.doors.arrivals import QUESTION, READY, STOP
from bendybus.doors.chosen import chosen_doors, running_ports
from bendybus.doors.crowd import COUNTED_DOORS, Crowd, Seat
from bendybus.doors.door import listening_sockets
from bendybus.doors.leash import Leash, LeashCut, leash
from bendybus.model.errors import StartRefused
from bendybus.settings import RunningPorts, Settings

STOP_SECONDS_MAX: Final = 20.0
LOOK_SECONDS: Final = 1.0
STILL_LOOKS_MAX: Final = 8
# So many are accepted at one door before the others have their turn.
ACCEPTED_TOGETHER: Final = 64
# When the process has no file left for another connection: how long until the next attempt.
NO_FILES_SECONDS: Final = 0.1
NO_WORKER_SECONDS: Final = 0.02
_REAP_SECONDS: Final = 0.01

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """What a worker gets from the keeper, beside the settings."""

    number: int
    leash: Leash
    seat: Seat
    crew: Crew


Serve = Callable[[Settings, WorkerPlace], int]


class Keeper:
    """Keeps the doors and the workers. `serve` is what a worker does, until its leash is cut."""

    def __init__(
        self,
        settings: Settings,
        serve: Serve,
        announce: Callable[[RunningPorts], None],
        note_stopping: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._serve = serve
        self._announce = announce
        self._note_stopping = note_stopping
        self._crowd = Crowd(settings.workers)
        self._restarts = Restarts(settings.workers)
        self._selector = selectors.DefaultSelector()
        self._listening: list[socket.socket] = []
        self._leashes: dict[int, Leash] = {}
        self._pids: dict[int, int] = {}
        self._ready: set[int] = set()
        # How far each worker was when last looked at, and for how many looks it has been there.
        self._beats = [0] * settings.workers
        self._still = [0] * settings.workers
        self._look_at = 0.0
        self._ports = RunningPorts()
        self._is_announced = False
        self._signals: list[int] = []
        self._at_servers = stores_at_servers(settings)

    def run(self) -> None:
        """Serve until a signal. Raises `StartRefused`, or ends as a worker that cannot start."""
        waking, woken = socket.socketpair()
        waking.setblocking(False)
        woken.setblocking(False)
        signal.set_wakeup_fd(waking.fileno())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note_signal)
        try:
            self._listen()
            self._selector.register(woken, selectors.EVENT_READ, partial(_drain, woken))
            gc.freeze()
            self._fork(0)
            while not self._signals:
                self._look()
            self._note_stopping()
        finally:
            self._stop()
            signal.set_wakeup_fd(-1)
            for each in (*self._listening, waking, woken):
                each.close()

    def _listen(self) -> None:
        """Take all ports, so that they stay whatever becomes of the workers."""
        doors = chosen_doors(self._settings)
        ports: dict[str, int] = {}
        for door in (*doors.amqp, *doors.http):
            for each in listening_sockets(door):
                self._listening.append(each)
                ports[door.name] = each.getsockname()[1]
                accept = partial(self._accept, each, door.name)
                self._selector.register(each, selectors.EVENT_READ, accept)
        self._settings = self._settings.with_ports(running_ports(ports))

    def _note_signal(self, number: int, _: object) -> None:
        self._signals.append(number)
        if len(self._signals) > 1:
            # Told twice: at once, then. What was accepted is on disk.
            self._kill()
            os._exit(128 + number)

    def _look(self) -> None:
        """Do what there is to do, or wait until there is something."""
        left = self._restarts.seconds_left(time.monotonic())
        until_look = max(self._look_at - time.monotonic(), 0.0)
        for key, _ in self._selector.select(until_look if left is None else min(left, until_look)):
            key.data()
        for number in self._restarts.due(time.monotonic()):
            self._fork(number)
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_SECONDS
            self._end_stuck()

    def _end_stuck(self) -> None:
        """End workers that have stood still for long: one may be in the way of all others.

        Counted in looks and not in time, which goes on while this process is stopped, too.
        """
        for number in self._ready:
            beats = self._crowd.beats(number)
            self._still[number] = self._still[number] + 1 if beats == self._beats[number] else 0
            self._beats[number] = beats
            if self._still[number] == STILL_LOOKS_MAX:
                _log.error("worker %d stands still, and is ended", number)
                os.kill(self._pids[number], signal.SIGKILL)

    def _accept(self, listening: socket.socket, door: str) -> None:
        if not self._ready:
            # Nobody could take it; whoever waits at the door stays there until somebody can.
            time.sleep(NO_WORKER_SECONDS)
            return
        for _ in range(ACCEPTED_TOGETHER):
            try:
                client, _ = listening.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as error:
                _log.warning("cannot accept a connection: %s", error)
                time.sleep(NO_FILES_SECONDS)
                return
            with client:
                self._hand_over(client, door)

    def _hand_over(self, client: socket.socket, door: str) -> None:
        """Give a connection to a worker that takes it; with none, the client must come again."""
        is_counted = door in COUNTED_DOORS
        order = self._crowd.by_room() if is_counted else self._crowd.in_turn()
        # Who stands still comes last.
        for number in sorted(order, key=lambda each: self._still[each] > 1):
            if number in self._ready and self._leashes[number].send(door, client):
                self._crowd.give(number, is_counted=is_counted)
                return

    def _fork(self, number: int) -> None:
        ours, theirs = leash()
        self._crowd.empty(number)
        # What is not written yet would be written by both.
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            # The first looks whether there is room for all, before there are others.
            is_first = number == 0 and not self._is_announced
            crew = Crew(self._settings.workers if is_first else 1, self._at_servers)
            seat = self._crowd.seat(number)
            self._become_worker(WorkerPlace(number, theirs, seat, crew), ours)
        theirs.close()
        self._leashes[number], self._pids[number] = ours, pid
        self._restarts.note_start(number, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, partial(self._hear, number))

    def _become_worker(self, place: WorkerPlace, keepers_end: Leash) -> None:
        """Serve, in the process that was just made, and end it: nothing of the keeper's goes on."""
        signal.set_wakeup_fd(-1)
        # A terminal sends this to all; the keeper answers it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Who held another's leash would keep that worker from noticing the keeper's end.
        for end in (keepers_end, *self._leashes.values()):
            end.close()
        for each in self._listening:
            each.close()
        self._selector.close()
        keep_to_processor(place.number, self._settings.workers)
        os._exit(self._serve(self._settings, place))

    def _hear(self, number: int) -> None:
        """Take what a worker says: that it is ready, or a question for another."""
        heard = self._leashes[number]
        try:
            while (parcel := heard.receive()) is not None:
                words, connection = parcel
                if words.startswith(READY):
                    self._note_ready(number, words.removeprefix(READY))
                if connection is not None:
                    with connection:
                        self._pass_on(words, connection)
        except LeashCut:
            self._bury(number)

    def _pass_on(self, words: str, connection: socket.socket) -> None:
        to, _, question = words.removeprefix(QUESTION).partition(" ")
        if to.isdecimal() and int(to) in self._ready:
            self._leashes[int(to)].send(f"{QUESTION}{question}", connection)

    def _note_ready(self, number: int, words: str) -> None:
        self._ready.add(number)
        self._still[number] = 0
        if self._is_announced:
            return
        if number == 0:
            # The one port that a worker takes itself is the same from now on.
            self._ports = RunningPorts(**json.loads(words))
            self._settings = self._settings.with_ports(self._ports)
            for each in range(1, self._settings.workers):
                self._fork(each)
        if len(self._ready) == self._settings.workers:
            self._is_announced = True
            self._announce(self._ports)

    def _bury(self, number: int) -> None:
        """A worker has ended, which it should not: another takes its place."""
        self._selector.unregister(self._leashes[number])
        self._leashes.pop(number).close()
        self._ready.discard(number)
        _, status = os.waitpid(self._pids.pop(number), 0)
        code = os.waitstatus_to_exitcode(status)
        if not self._is_announced and not self._signals:
            if code > 0:
                # It has said itself why it did not start.
                raise SystemExit(code)
            raise StartRefused(f"worker {number} ended before it was ready ({code})")
        pause = self._restarts.note_end(number, time.monotonic())
        _log.error("worker %d ended (%d); another starts in %.1f s", number, code, pause)

    def _stop(self) -> None:
        """Let nobody else in, let the workers finish, and wait for them; not without end."""
        for each in self._listening:
            each.close()
        for cut in self._leashes.values():
            cut.send(STOP)
            cut.close()
        ends_at = time.monotonic() + STOP_SECONDS_MAX
        while self._pids:
            self._reap()
            if time.monotonic() > ends_at:
                _log.error("workers %s do not stop, and are ended", sorted(self._pids))
                self._kill()
                ends_at = time.monotonic() + STOP_SECONDS_MAX
            time.sleep(_REAP_SECONDS)

    def _reap(self) -> None:
        for number, pid in list(self._pids.items()):
            ended, _ = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._pids[number]

    def _kill(self) -> None:
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def keep_workers(
    settings: Settings,
    serve: Serve,
    announce: Callable[[RunningPorts], None],
    note_stopping: Callable[[], None],
) -> None:
    """Run as many front ends as asked for, until a signal; `announce` is called when all serve."""
    with nullcontext() if settings.places else only_broker_on(settings.data):
        Keeper(settings, serve, announce, note_stopping).run()


def _drain(woken: socket.socket) -> None:
    with suppress(BlockingIOError):
        woken.recv(4096)
