"""A worker's side of the doors: connections that another process accepted, and questions of others.

The process that keeps the doors accepts, so that whoever connects is given to the worker with the
fewest clients, and nobody who waits at a door is lost with a worker that dies.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from bendybus.doors.crowd import COUNTED_DOORS, Seat
from bendybus.doors.leash import Leash, LeashCut

ANSWER_SECONDS_MAX: Final = 5.0
BEAT_SECONDS: Final = 1.0
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
# Stands before a question, so that it is no door's name.
QUESTION: Final = "?"
READY: Final = "ready"
STOP: Final = "stop"

_log = logging.getLogger(__name__)

# Lets a connection in; done when it is open, or gone.
Welcome = Callable[[socket.socket], "asyncio.Future[None]"]
Answer = Callable[[str], Awaitable[bytes]]


class Arrivals:
    """What comes over the leash of one worker: clients for its doors, and questions.

    `note_stop` is called when the process that keeps the doors wants it to stop, `note_cut` when
    that one is gone.
    """

    def __init__(
        self,
        leash: Leash,
        seat: Seat,
        *,
        number: int,
        workers: int,
        note_stop: Callable[[], None],
        note_cut: Callable[[], None],
    ) -> None:
        self.seat = seat
        self.number = number
        self.others: Sequence[int] = [each for each in range(workers) if each != number]
        self._leash = leash
        self._note_stop = note_stop
        self._note_cut = note_cut
        self._is_stopping = False
        self._doors: dict[str, Welcome] = {}
        self._answers: dict[str, Answer] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._beating: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Take what comes from now on, in the loop, and show that the loop turns."""
        asyncio.get_running_loop().add_reader(self._leash.fileno(), self._read)
        self._beat()

    def end(self) -> None:
        """Take nothing any more."""
        if self._beating is not None:
            self._beating.cancel()
        asyncio.get_running_loop().remove_reader(self._leash.fileno())

    def _beat(self) -> None:
        self.seat.beat()
        self._beating = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)

    def say_ready(self, words: str) -> None:
        """Tell the keeper of the doors that clients can be served."""
        self._leash.send(f"{READY} {words}")

    def welcome(self, door: str, take: Welcome) -> None:
        """Have a function called with each connection that comes by a door."""
        self._doors[door] = take

    def leave(self, door: str) -> None:
        """Take nobody else in by a door; who is on the way is turned away."""
        self._doors.pop(door, None)

    def answer(self, subject: str, give: Answer) -> None:
        """Answer the questions whose first word is this; `give` gets the rest of it."""
        self._answers[subject] = give

    async def ask(self, question: str) -> Mapping[int, bytes | None]:
        """Ask every other worker; None of one that is away or has not answered in time."""
        answers = await asyncio.gather(*(self._ask(each, question) for each in self.others))
        return dict(zip(self.others, answers, strict=True))

    async def _ask(self, number: int, question: str) -> bytes | None:
        ours, theirs = socket.socketpair()
        with theirs:
            is_sent = self._leash.send(f"{QUESTION}{number} {question}", theirs)
        if not is_sent:
            ours.close()
            return None
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                answer = await _read_all(reader)
        except (TimeoutError, OSError):
            return None
        finally:
            writer.close()
        # Whoever answers ends with a full stop: half an answer is none.
        return answer[:-1] if answer.endswith(b".") else None

    def _read(self) -> None:
        """Take all that waits."""
        while True:
            try:
                parcel = self._leash.receive()
            except LeashCut:
                self.end()
                if not self._is_stopping:
                    self._note_cut()
                return
            if parcel is None:
                return
            words, connection = parcel
            if words == STOP:
                self._is_stopping = True
                self._note_stop()
            elif not words.startswith(QUESTION):
                self._admit(words, connection)
            elif connection is not None:
                task = asyncio.create_task(self._answer(words[1:], connection), name="answer")
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)

    def _admit(self, door: str, connection: socket.socket | None) -> None:
        """Let a client in.

        Until it is open it counts as given: who shakes hands for seconds would be in no number.
        """
        take = self._doors.get(door)
        if connection is not None and take is not None:
            admitted = take(connection)
            if door in COUNTED_DOORS:
                admitted.add_done_callback(lambda _: self.seat.take())
            return
        # Without a connection the process has no file left for it: the client must come again.
        if connection is not None:
            connection.close()
        if door in COUNTED_DOORS:
            self.seat.take()

    async def _answer(self, question: str, connection: socket.socket) -> None:
        subject, _, rest = question.partition(" ")
        _, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            give = self._answers.get(subject)
            if give is not None:
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    writer.write(await give(rest) + b".")
                    await writer.drain()
        except (TimeoutError, OSError) as error:
            _log.warning("another worker's question was not answered: %s", error)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := await reader.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            return b""
    return b"".join(parts)
