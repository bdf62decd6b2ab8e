"""Who has the file of a shared store open, and whether any of them found the disk failing.

Whoever has the file open holds a shared lock on `users`, in the folder beside the file. After a
failed sync the kernel may show pages that are not on the disk; only who is alone with the file may
read its log anew (rules 2 and 3 of `database`). So two counters lie in `users`: how often anybody
found the disk failing, and up to which of these it was mended since. While they differ nobody opens
the file but alone, and whoever has it open lets go.

The kernel gives up the locks of a process that dies. The counters mean nothing once all are gone,
because the first to come is alone.
"""

import fcntl
import itertools
import mmap
import os
from pathlib import Path
from time import monotonic, sleep
from typing import Final

_BYTES: Final = 16
_FAILED, _MENDED = 0, 1
_PAUSE_SECONDS: Final = 0.005
PAUSES_SECONDS: Final = (0.0001, 0.0002, 0.0004, 0.0008, 0.001)


def side_folder(path: Path) -> Path:
    """Return the folder in which those who share a file meet, and make it if need be."""
    folder = Path(f"{path}-shared")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_side_file(path: Path) -> int:
    """Open a file beside the store, to be locked."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def pause(tries: int) -> None:
    """Wait a little for another's turn to end: the longer, the longer it has lasted already.

    A turn is a few milliseconds. To look much more often takes the time that the other needs.
    """
    sleep(PAUSES_SECONDS[min(tries, len(PAUSES_SECONDS) - 1)])


class OthersInTheWay(Exception):
    """The file cannot be opened before others have let go of it, or have opened it."""


class FileTurn:
    """A lock that one holds at a time, over all processes; it goes with the process."""

    def __init__(self, path: Path) -> None:
        self._file = open_side_file(path)

    def take(self, *, within_seconds: float = 0) -> bool:
        """Take it, if it becomes free soon enough; say whether."""
        deadline = monotonic() + within_seconds
        for tries in itertools.count():
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() >= deadline:
                    break
                pause(tries)
            else:
                return True
        return False

    def give(self) -> None:
        """Let others have it."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let others have it, for good."""
        os.close(self._file)


class Users:
    """One of those who have the file open, or are about to."""

    def __init__(self, folder: Path) -> None:
        self._file = open_side_file(folder / "users")
        try:
            if os.fstat(self._file).st_size < _BYTES:
                os.ftruncate(self._file, _BYTES)
            self._memory = mmap.mmap(self._file, _BYTES)
        except BaseException:
            os.close(self._file)
            raise
        self._counters = memoryview(self._memory).cast("q")
        self._failed_before = 0

    def be_alone(self) -> bool:
        """Keep all others out, if nobody has the file open; say whether."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def note_mended(self) -> None:
        """Let others open the file: alone, the log was read and written back."""
        self._counters[_MENDED] = self._counters[_FAILED]

    def join(self, *, within_seconds: float) -> None:
        """Be one of those who have the file open. Raises `OthersInTheWay`."""
        deadline = monotonic() + within_seconds
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() >= deadline:
                    raise OthersInTheWay("another process opens the file just now") from None
                sleep(_PAUSE_SECONDS)
        self._failed_before = self._counters[_FAILED]
        if self._failed_before != self._counters[_MENDED]:
            raise OthersInTheWay("another process has not yet let go after the disk failed")

    @property
    def must_let_go(self) -> bool:
        """Whether anybody has found the disk failing since we joined."""
        return self._counters[_FAILED] != self._failed_before

    def note_failing(self) -> None:
        """Make all let go: the disk failed. Two at once may count as one."""
        self._counters[_FAILED] += 1

    def close(self) -> None:
        """Leave. The file itself must be closed by now."""
        self._counters.release()
        self._memory.close()
        os.close(self._file)
