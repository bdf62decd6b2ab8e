"""Between a process that keeps the doors and its workers: connections go one way, questions both.

A leash is a pair of sockets, one end each. What goes over it is a few words, at most one open
connection with them. Whoever's other end is gone knows that the other process is.
"""

import socket
from contextlib import suppress
from typing import Final, NamedTuple

WORDS_BYTES_MAX: Final = 4096


class Parcel(NamedTuple):
    """A few words, and perhaps a connection that now is the receiver's."""

    words: str
    connection: socket.socket | None


class LeashCut(Exception):
    """The other process is gone."""


class Leash:
    """One end. Neither end ever waits for the other."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)

    def fileno(self) -> int:
        """Return the file to watch for what comes."""
        return self._end.fileno()

    def close(self) -> None:
        """Let go; the other end notices."""
        self._end.close()

    def send(self, words: str, connection: socket.socket | None = None) -> bool:
        """Send; says whether it went. The caller closes its own copy of the connection.

        It does not go when the other does not read, or is gone.
        """
        content = words.encode()
        assert len(content) <= WORDS_BYTES_MAX, "a few words"
        files = [] if connection is None else [connection.fileno()]
        try:
            socket.send_fds(self._end, [content], files)
        except OSError:
            return False
        return True

    def receive(self) -> Parcel | None:
        """Return what came, None if nothing has. Raises `LeashCut`."""
        try:
            content, files, _, _ = socket.recv_fds(self._end, WORDS_BYTES_MAX, 1)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            raise LeashCut from None
        if not content:
            raise LeashCut
        connection = None
        for file in files:
            connection = socket.socket(fileno=file)
            connection.setblocking(False)
        return Parcel(content.decode(), connection)


def leash() -> tuple[Leash, Leash]:
    """Make both ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        with suppress(OSError):  # a bound of the system's, which is large enough
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return Leash(ours), Leash(theirs)
