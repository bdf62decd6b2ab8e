"""What the figures were read on: they mean little without it."""

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

SYNC_REPEATS: Final = 100
SYNC_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Machine:
    """Processor, memory, disk, and how busy it was before the run."""

    processor: str
    cores: int
    memory_gb: float
    kernel: str
    filesystem: str
    sync_ms: float
    load_before: float


def describe(folder: Path) -> Machine:
    """Look at the machine and the disk that the folder is on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        processor=processor_name(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(pages / 1e9, 1),
        kernel=platform.release(),
        filesystem=filesystem_of(folder),
        sync_ms=round(sync_seconds(folder) * 1000, 3),
        load_before=round(os.getloadavg()[0], 2),
    )


def processor_name() -> str:
    """The model as the kernel names it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def filesystem_of(folder: Path) -> str:
    """The type of the filesystem that the folder is on: the longest mount point above it."""
    best_point, best_type = Path("/"), "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, point, kind = line.split()[:3]
        if folder.resolve().is_relative_to(point) and Path(point).is_relative_to(best_point):
            best_point, best_type = Path(point), kind
    return best_type


def sync_seconds(folder: Path) -> float:
    """The median time of a small write and its fdatasync: the floor under every durable answer."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sync-probe"
    times: list[float] = []
    with path.open("wb", buffering=0) as probe:
        for _ in range(SYNC_REPEATS):
            begun = time.perf_counter()
            probe.write(bytes(SYNC_BYTES))
            os.fdatasync(probe.fileno())
            times.append(time.perf_counter() - begun)
    path.unlink()
    return median(times)
