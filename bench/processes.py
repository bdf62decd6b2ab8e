"""What the kernel knows of a running process: memory, processor time, and whether it has ended."""

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

POLL_SECONDS: Final = 0.005
STOP_SECONDS_MAX: Final = 60.0
CLOCK_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class BenchmarkError(Exception):
    """The run cannot go on: a broker or a client did not do what was asked of it."""


@dataclass(frozen=True, slots=True)
class CpuShares:
    """Processor cores kept busy while something ran; 1.0 is one whole core."""

    broker_cores: float
    client_cores: float


def environment_without(prefix: str) -> dict[str, str]:
    """Our environment without a broker's own variables: what is measured are its defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefix)}


def wait_until(is_met: Callable[[], bool], *, seconds_max: float, what: str) -> None:
    """Poll until the condition holds. Raises `BenchmarkError` naming it when the time is over."""
    deadline = time.monotonic() + seconds_max
    while not is_met():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"waited {seconds_max:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    """Whether a loopback connection to the port is taken."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def family(pid: int) -> list[int]:
    """The process and all its descendants: a broker of several processes is counted whole."""
    members = [pid]
    for member in members:  # grows while it is walked
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            try:
                members += [int(child) for child in children.read_text().split()]
            except OSError:  # the thread ended between the listing and the reading
                continue
    return members


def figures_of(pid: int, name: str) -> Iterator[str]:
    """What the kernel says in one of its files of a process and its living descendants."""
    for member in family(pid):
        try:
            yield Path(f"/proc/{member}/{name}").read_text()
        except (FileNotFoundError, ProcessLookupError):
            # A descendant ended between the listing and the reading; the process itself may not.
            if member == pid:
                raise


def resident_bytes(pid: int) -> int:
    """Resident memory of a process and its descendants."""
    pages = sum(int(text.split()[1]) for text in figures_of(pid, "statm"))
    return pages * resource.getpagesize()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its living descendants since they began."""
    ticks = 0
    for text in figures_of(pid, "stat"):
        # The name in parentheses may hold spaces; fields are counted from the last ")".
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / CLOCK_TICKS_PER_SECOND


def children_cpu_seconds() -> float:
    """Processor time of our own children that have ended: the load clients."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def busy_seconds() -> float:
    """Processor time of the whole machine since it began, the kernel's own work included."""
    user, nice, system, _, _, *interrupts_and_stolen = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    ticks = user + nice + system + sum(interrupts_and_stolen)
    return ticks / CLOCK_TICKS_PER_SECOND


def with_cpu_shares(broker_pid: int, work: Callable[[], T]) -> tuple[T, CpuShares]:
    """Do the work, and say how many cores the broker and the clients used for it."""
    broker_before, clients_before = cpu_seconds(broker_pid), children_cpu_seconds()
    begun = time.monotonic()
    result = work()
    seconds = time.monotonic() - begun
    return result, CpuShares(
        broker_cores=(cpu_seconds(broker_pid) - broker_before) / seconds,
        client_cores=(children_cpu_seconds() - clients_before) / seconds,
    )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, unless it has already, and wait; kill it when it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def allow_many_files() -> None:
    """Raise the limit on open files as far as allowed; brokers and clients inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
