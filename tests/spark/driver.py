"""A driver of Spark in a process of its own, to be killed with all that belongs to it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.spark.conftest import MASTER, Bus

STEP_SECONDS_MAX: Final = 240.0
END_SECONDS_MAX: Final = 1800.0
POLL_SECONDS: Final = 0.05


class Driver:
    """A program that uses Spark, with the Java process and the workers that it starts."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path) -> None:
        self._process = process
        self._errors = errors

    def kill(self) -> None:
        """End Python and Java without a warning; the workers see it and end."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def kill_worker(self) -> bool:
        """Kill one of the processes in which tasks run; False if there is none now."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            pid = int(path.parent.name)
            try:
                if (
                    os.getsid(pid) != self._process.pid
                    or b"pyspark.daemon" not in path.read_bytes()
                ):
                    continue
                # Of the daemon and its children, a child.
                if os.getpgid(pid) != pid:
                    os.kill(pid, signal.SIGKILL)
                    return True
            except (ProcessLookupError, FileNotFoundError):
                continue
        return False

    @property
    def has_ended(self) -> bool:
        """Whether it is over, well or not."""
        return self._process.poll() is not None

    def live_on(self, seconds: float) -> None:
        """Let it go on for so long, or until it ends."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def wait_for_line(self) -> None:
        """Wait until it prints a line."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), self._errors.read_text()

    def end(self) -> bytes:
        """Wait for its end, which must be a good one, and return what it printed."""
        printed, _ = self._process.communicate(timeout=END_SECONDS_MAX)
        assert self._process.returncode == 0, self._errors.read_text()
        return printed

    def result(self) -> dict[str, Any]:
        """Wait for its end, and return what it says came of it."""
        *_, last = self.end().splitlines()
        result: dict[str, Any] = json.loads(last)["result"]
        return result

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so; it must not end before."""
        self.wait_for_or_end(is_so, may_end=False)

    def wait_for_or_end(self, is_so: Callable[[], bool], *, may_end: bool = True) -> None:
        """Wait until something is so, or until it ends."""
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while not is_so():
            if self.has_ended and may_end:
                return
            assert not self.has_ended, self._errors.read_text()
            assert time.monotonic() < deadline
            time.sleep(POLL_SECONDS)


@contextmanager
def _running(command: Sequence[str], more: Mapping[str, str]) -> Iterator[Driver]:
    """Run a program while the block runs; what is left of it then is killed."""
    with tempfile.NamedTemporaryFile(suffix=".errors") as errors:
        process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **more},
            start_new_session=True,
        )
        running = Driver(process, Path(errors.name))
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def driver(bus: Bus, *arguments: str, master: str = MASTER) -> Iterator[Driver]:
    """Run `bendybus pipeline run …` while the block runs."""
    command = (
        *("-m", "bendybus", "pipeline", "run", *arguments),
        *("--connection-string", bus.connection_string),
        *("--flight-endpoint", bus.flight_endpoint),
        *("--master", master, "--output", "json"),
    )
    with _running(command, {}) as running:
        yield running


@contextmanager
def script(bus: Bus, name: str, *arguments: object) -> Iterator[Driver]:
    """Run a program of this folder while the block runs."""
    places = {
        "BENDYBUS_CONNECTION_STRING": bus.connection_string,
        "BENDYBUS_FLIGHT_ENDPOINT": bus.flight_endpoint,
    }
    with _running(("-m", f"tests.spark.{name}", *map(str, arguments)), places) as running:
        yield running
