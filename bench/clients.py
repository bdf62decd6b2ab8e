"""The load clients: built from the C++ beside this file, run as processes of their own."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.brokers import RunningBroker
from bench.processes import BenchmarkError, wait_until

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = ("load", "light", "latency", "idle", "first", "drain", "features", "rest")
RUN_SECONDS_MAX: Final = 300.0
READY_SECONDS_MAX: Final = 120.0
# Long enough for a broker to hand out what it was given back by the connection before.
QUIET_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Waits:
    """Time to acknowledgement as a sender saw it, and the rate that was really sent."""

    p50_ms: float
    p99_ms: float
    per_second: float


class Clients:
    """The built programs, and how each is called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def build(self) -> None:
        """Compile what is missing or older than its source."""
        self._folder.mkdir(parents=True, exist_ok=True)
        header = HERE / "credentials.hpp"
        for program in PROGRAMS:
            source, built = HERE / f"{program}.cpp", self._folder / program
            newest = max(source.stat().st_mtime, header.stat().st_mtime)
            if not built.exists() or built.stat().st_mtime < newest:
                files = ["-o", str(built), str(source)]
                libraries = ["-lqpid-proton-cpp", "-pthread"]
                subprocess.run(["g++", "-O2", "-std=c++17", *files, *libraries], check=True)

    def send(
        self,
        broker: RunningBroker,
        queue: str,
        count: int,
        *,
        body_bytes: int,
        in_flight: int,
        program: str = "load",
    ) -> float:
        """Send durable messages; acknowledged messages per second."""
        numbers = (str(count), str(body_bytes), str(in_flight))
        with self.running(broker, program, "send", queue=queue, then=numbers) as sender:
            return load_rate(finish(sender))

    def receive(
        self,
        broker: RunningBroker,
        queue: str,
        count: int,
        *,
        in_flight: int,
        program: str = "load",
    ) -> float:
        """Receive and accept messages; messages per second."""
        numbers = (str(count), "0", str(in_flight))
        with self.running(broker, program, "recv", queue=queue, then=numbers) as receiver:
            return load_rate(finish(receiver))

    def send_and_receive(
        self, broker: RunningBroker, queue: str, count: int, *, body_bytes: int, in_flight: int
    ) -> tuple[float, float]:
        """One sender and one receiver at once; messages per second of each."""
        numbers = (str(count), str(body_bytes), str(in_flight))
        with (
            self.running(broker, "load", "recv", queue=queue, then=numbers) as receiver,
            self.running(broker, "load", "send", queue=queue, then=numbers) as sender,
        ):
            return load_rate(finish(sender)), load_rate(finish(receiver))

    def waits(
        self,
        broker: RunningBroker,
        queue: str,
        *,
        per_second: float,
        seconds: float,
        body_bytes: int,
    ) -> Waits:
        """Send at a fixed rate; how long the acknowledgements took."""
        numbers = (f"{per_second:.0f}", str(seconds), str(body_bytes))
        with self.running(broker, "latency", queue=queue, then=numbers) as sender:
            output = finish(sender)
        return Waits(
            p50_ms=number_before("us_p50", output) / 1000,
            p99_ms=number_before("us_p99", output) / 1000,
            per_second=number_before("per_second", output),
        )

    def has_message(self, broker: RunningBroker, queue: str, *, wait_ms: int) -> bool:
        """Whether the queue yields a message within the time; the message stays in the queue."""
        with self.running(broker, "first", queue=queue, then=(str(wait_ms),)) as receiver:
            return "first delivery" in finish(receiver)

    def drain(self, broker: RunningBroker, queue: str) -> int:
        """Empty the queue; how many messages were in it."""
        with self.running(broker, "drain", queue=queue, then=(str(QUIET_MS),)) as receiver:
            return int(number_before("drained", finish(receiver)))

    @contextmanager
    def idle_connections(self, broker: RunningBroker, queue: str, count: int) -> Iterator[None]:
        """Hold that many connections, each with one attached receiver, while the body runs."""
        with self.running(broker, "idle", queue=queue, then=(str(count),)) as process:
            wait_until_ready(process, f"{count} connections")
            yield
            finish(process)

    @contextmanager
    def running(
        self, broker: RunningBroker, program: str, *mode: str, queue: str, then: tuple[str, ...]
    ) -> Iterator[subprocess.Popen[str]]:
        """Run a program that ends with the block at the latest, however the block ends."""
        where = (f"127.0.0.1:{broker.port}", broker.addresses[queue])
        environment = os.environ | {"LOAD_USER": broker.user, "LOAD_PASS": broker.password}
        with self.running_with(program, (*mode, *where, *then), environment) as process:
            yield process

    @contextmanager
    def running_with(
        self, program: str, arguments: tuple[str, ...], environment: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[str]]:
        """The same with all arguments as they are given."""
        process = subprocess.Popen(
            [str(self._folder / program), *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def wait_until_ready(process: subprocess.Popen[str], what: str) -> None:
    """Wait until the program says that it holds what it was told to, or has ended."""
    assert process.stdout is not None
    output = process.stdout
    os.set_blocking(output.fileno(), False)
    wait_until(
        lambda: process.poll() is not None or output.readline().startswith("ready"),
        seconds_max=READY_SECONDS_MAX,
        what=what,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Close the program's input, wait for its end and return what it printed."""
    try:
        output, errors = process.communicate(timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"no end after {RUN_SECONDS_MAX:.0f} s: {process.args!r}") from None
    if process.returncode != 0:
        raise BenchmarkError(f"{process.args!r} failed: {errors.strip()}")
    return output


def load_rate(output: str) -> float:
    """The figure of load.cpp."""
    return number_before("per_second", output)


def number_before(label: str, output: str) -> float:
    """Our clients print each number before its name, as load.cpp does."""
    match = re.search(rf"(\S+) {label}\b", output)
    if match is None:
        raise BenchmarkError(f"no {label} in what the client printed: {output!r}")
    return float(match[1])
