"""What the benchmark needs of a broker, whichever it is."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that takes connections, and how to reach its queues."""

    system: str
    pid: int
    port: int
    user: str
    password: str
    addresses: Mapping[str, str]
    # Where it takes requests over HTTP, if it does.
    http_port: int = 0
    # Where it gives and takes bulk data, if it does.
    flight_port: int = 0

    def target(self, queue: str) -> str:
        """The name under which figures of this queue are reported."""
        return f"{self.system} {queue}"


class System(Protocol):
    """A broker that can be started, stopped and started again on the same folder."""

    @property
    def name(self) -> str:
        """One word, for tables and folders."""
        ...

    @property
    def queues(self) -> tuple[str, ...]:
        """The kinds of queue that it offers here."""
        ...

    def version(self) -> str:
        """The version to write beside the figures."""
        ...

    def running(self, folder: Path) -> AbstractContextManager[RunningBroker]:
        """Run on the folder: a new one starts empty, a used one has what it had."""
        ...
