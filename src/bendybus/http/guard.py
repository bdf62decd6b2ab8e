"""What the connections of a server may hold together, and who must go when it is too much."""

import asyncio
from typing import Final, Protocol

CONNECTIONS_MAX: Final = 2000
BODY_BYTES_MAX: Final = 128 * 1024 * 1024
LOOK_SECONDS: Final = 0.5


class Guarded(Protocol):
    """A connection, as the guard sees it."""

    deadline: float | None

    def end_late(self) -> None:
        """End a connection whose client has not gone on in time."""
        ...

    def give_way(self) -> None:
        """End at once, for others have more use for the place."""
        ...

    def end(self) -> None:
        """End as soon as the answer under way is written."""
        ...

    def abort(self) -> None:
        """End at once, whatever is under way."""
        ...


class Guard:
    """Counts connections and bytes, and looks after deadlines.

    Nobody has a timer: one look over all connections twice a second costs less than setting and
    clearing one for each request. When all places are taken, the client that we have waited for
    longest gives way: a slow one, or one that has nothing to ask just now, never one that is
    being answered.
    """

    def __init__(
        self, connections_max: int = CONNECTIONS_MAX, body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        # Answers so far, by method and status.
        self.answers: dict[tuple[str, int], int] = {}
        self._connections_max = connections_max
        self._body_bytes_left = body_bytes_max
        self._connections: set[Guarded] = set()
        # A dictionary for its order: who has kept us waiting for longest comes first.
        self._waiting: dict[Guarded, None] = {}
        self._loop = asyncio.get_running_loop()
        self._emptied: asyncio.Future[None] | None = None
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)

    @property
    def connection_count(self) -> int:
        """How many there are."""
        return len(self._connections)

    def note_answer(self, method: str, status: int) -> None:
        """Count an answer."""
        key = method, status
        self.answers[key] = self.answers.get(key, 0) + 1

    def join(self, connection: Guarded) -> bool:
        """Take a connection in; says whether there is room."""
        if len(self._connections) >= self._connections_max:
            if not self._waiting:
                return False
            slowest = next(iter(self._waiting))
            self.leave(slowest)
            slowest.give_way()
        self._connections.add(connection)
        return True

    def leave(self, connection: Guarded) -> None:
        """Let a connection go."""
        self._connections.discard(connection)
        self._waiting.pop(connection, None)
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    def note_waiting(self, connection: Guarded) -> None:
        """Note that it is the client's turn."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def note_busy(self, connection: Guarded) -> None:
        """Note that it is our turn."""
        self._waiting.pop(connection, None)

    def reserve(self, size: int) -> bool:
        """Set bytes aside for a body; says whether there are so many."""
        if size > self._body_bytes_left:
            return False
        self._body_bytes_left -= size
        return True

    def release(self, size: int) -> None:
        """Give back what was set aside."""
        self._body_bytes_left += size

    async def close(self, seconds: float) -> None:
        """End all connections: those that are being answered when they are, or the time is over."""
        self._timer.cancel()
        self._emptied = self._loop.create_future()
        for connection in list(self._connections):
            connection.end()
        if self._connections:
            await asyncio.wait([self._emptied], timeout=seconds)
        for connection in list(self._connections):
            connection.abort()

    def _look(self) -> None:
        self._timer = self._loop.call_later(LOOK_SECONDS, self._look)
        now = self._loop.time()
        for connection in list(self._connections):
            if connection.deadline is not None and connection.deadline < now:
                connection.end_late()
