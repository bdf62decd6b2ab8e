"""Processes that share a store tell each other in which queues something may have become free.

Each has a datagram socket in the folder beside the file. What cannot be delivered at once is lost,
which is harmless: whoever waits also looks from time to time.
"""

import asyncio
import contextlib
import os
import secrets
import socket
from array import array
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from bendybus.model.ids import QueueNumber
from bendybus.store.sharing import Heard

# What is told within this time is told together.
GATHERED_SECONDS: Final = 0.002
# More than this is told as anything.
QUEUES_MAX: Final = 500
# How long a look at who else is there holds good.
PEERS_SECONDS: Final = 1.0
_PREFIX: Final = "hints-"
_NUMBER_BYTES: Final = 8
_BYTES_MAX: Final = QUEUES_MAX * _NUMBER_BYTES
# How many are read before others get to run.
_READ_TOGETHER: Final = 100


class Hints:
    """One process's socket, and the way to those of the others. Used by the loop alone."""

    def __init__(self, folder: Path, heard: Heard) -> None:
        self._folder = folder
        self._heard = heard
        self._name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        # A socket's path must be short, and that of the folder need not be.
        self._place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._told: set[QueueNumber] = set()
        self._is_anything_told = False
        self._telling: asyncio.TimerHandle | None = None
        self._peers: list[str] = []
        self._peers_until = 0.0
        try:
            self._socket.bind(self._path(self._name))
            self._loop.add_reader(self._socket, self._read)
        except BaseException:
            self._socket.close()
            os.close(self._place)
            raise

    def tell(self, queues: Sequence[QueueNumber]) -> None:
        """Tell the others soon."""
        self._told.update(queues)
        self._is_anything_told |= not queues
        if self._telling is None:
            self._telling = self._loop.call_later(GATHERED_SECONDS, self._tell)

    def close(self) -> None:
        """Hear and tell no more."""
        if self._telling is not None:
            self._telling.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        with contextlib.suppress(OSError):
            (self._folder / self._name).unlink()
        os.close(self._place)

    def _path(self, name: str) -> str:
        path = str(self._folder / name)
        short = f"/proc/self/fd/{self._place}/{name}"
        return short if len(short) < len(path) and Path("/proc/self/fd").exists() else path

    def _read(self) -> None:
        heard: set[QueueNumber] = set()
        is_anything = False
        for _ in range(_READ_TOGETHER):
            try:
                told = self._socket.recv(_BYTES_MAX)
            except OSError:
                break
            numbers = array("q", told[: len(told) // _NUMBER_BYTES * _NUMBER_BYTES])
            heard.update(map(QueueNumber, numbers))
            is_anything |= not numbers
        if is_anything or heard:
            self._heard([] if is_anything else sorted(heard))

    def _tell(self) -> None:
        self._telling = None
        queues = sorted(self._told)
        is_anything = self._is_anything_told or len(queues) > QUEUES_MAX
        self._told, self._is_anything_told = set(), False
        datagram = b"" if is_anything else array("q", queues).tobytes()
        for peer in self._others():
            try:
                self._socket.sendto(datagram, self._path(peer))
            except (ConnectionRefusedError, FileNotFoundError):
                # It was killed, or has just closed.
                with contextlib.suppress(OSError):
                    (self._folder / peer).unlink()
                self._peers_until = 0.0
            except OSError:
                # It does not read them; it will look by itself.
                continue

    def _others(self) -> list[str]:
        if monotonic() >= self._peers_until:
            self._peers_until = monotonic() + PEERS_SECONDS
            self._peers = [
                each.name for each in self._folder.glob(f"{_PREFIX}*") if each.name != self._name
            ]
        return self._peers
