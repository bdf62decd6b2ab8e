"""`bench/profile`: one profile of this broker under load, as shares of time by layer.

py-spy stops the process for each sample, so rates under it are lower than the benchmark's; the
shares are what it is for.
"""

import shutil
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import machine
from bench.clients import Clients
from bench.layers import IDLE, Profile, read_profile
from bench.page import Table, as_markdown, as_text, write_between_marks
from bench.processes import BenchmarkError, wait_until
from bench.scenarios import SMALL_BODY_BYTES, Turn
from bench.size import FULL
from bench.subject_bendybus import Bendybus

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parent / "docs" / "profile.md"
WORK: Final = HERE / ".work"
QUEUE: Final = "partitioned"
FUNCTIONS_SHOWN: Final = 15
RECORD_SECONDS_MAX: Final = 600
START_SECONDS_MAX: Final = 30.0


def main() -> int:
    """Record, attribute, print and write the page."""
    try:
        profile, rates = record(WORK)
    except (BenchmarkError, OSError, subprocess.SubprocessError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 2
    tables = [layers_table(profile), functions_table(profile)]
    for table in tables:
        print(f"\n{as_text(table)}")
    heading = conditions(rates)
    write_between_marks(PAGE, [heading, *(as_markdown(table) for table in tables)], "profile")
    print(f"\nwritten to {PAGE.relative_to(HERE.parent)}")
    return 0


def record(work: Path) -> tuple[Profile, tuple[float, float]]:
    """Run one sender and one receiver at once under py-spy; the profile and both rates."""
    clients = Clients(work / "bin")
    clients.build()
    system, folder, samples = Bendybus(), work / "data" / "profile", work / "profile.txt"
    shutil.rmtree(folder, ignore_errors=True)
    with system.running(folder) as broker:
        turn = Turn(clients, broker, QUEUE, FULL)
        turn.warm_up()
        with (work / "py-spy.log").open("w") as log:
            recorder = subprocess.Popen(py_spy(broker.pid, samples), stdout=log, stderr=log)
            wait_until(
                lambda: "Sampling" in log_text(work) or recorder.poll() is not None,
                seconds_max=START_SECONDS_MAX,
                what="py-spy to begin",
            )
            if recorder.poll() is not None:
                raise BenchmarkError(f"py-spy did not begin: {log_text(work)}")
            rates = clients.send_and_receive(
                broker,
                QUEUE,
                FULL.messages,
                body_bytes=SMALL_BODY_BYTES,
                in_flight=FULL.in_flight,
            )
            recorder.send_signal(signal.SIGINT)  # it writes what it has
            recorder.wait(START_SECONDS_MAX)
    shutil.rmtree(folder, ignore_errors=True)
    return read_profile(samples.read_text().splitlines()), rates


def log_text(work: Path) -> str:
    """What py-spy has said so far."""
    return (work / "py-spy.log").read_text()


def py_spy(pid: int, samples: Path) -> list[str]:
    """Sample all threads, waiting ones too, down into C: that is where SQLite and the disk are."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        raise BenchmarkError("py-spy is not installed; run make setup")
    how = ["--native", "--idle", "--threads", "--full-filenames", "--format", "raw"]
    what = ["--pid", str(pid), "--duration", str(RECORD_SECONDS_MAX), "--output", str(samples)]
    return [program, "record", *how, *what]


def layers_table(profile: Profile) -> Table:
    """A column per kind of thread: how many of them were in which layer, on average."""
    kinds = sorted(profile.by_kind)
    weight: Counter[str] = sum(profile.by_kind.values(), Counter())
    layers = sorted(weight, key=lambda name: (name == IDLE, -weight[name]))
    rows = [
        [layer, *(f"{profile.threads_in(kind, layer):.3f}" for kind in kinds)] for layer in layers
    ]
    return [["threads in it, on average", *kinds], *rows]


def functions_table(profile: Profile) -> Table:
    """Our functions that ran, or waited for the disk, with what they called outside our code."""
    total = profile.by_function.total()
    table = [["running in, with what it calls outside our code", "share of running time"]]
    for function, count in profile.by_function.most_common(FUNCTIONS_SHOWN):
        table.append([f"`{function}`", f"{count / total:.1%}"])
    return table


def conditions(rates: tuple[float, float]) -> str:
    """When, where and at which rates."""
    seen = machine.describe(WORK)
    sent, received = rates
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, bendybus {Bendybus().version()}, "
        f"{seen.cores} cores of {seen.processor}, {seen.sync_ms} ms per synced write; "
        f"under the profiler {sent:,.0f} sends/s and {received:,.0f} receives/s at once, "
        f"{SMALL_BODY_BYTES} B, {QUEUE} queue."
    )


if __name__ == "__main__":
    sys.exit(main())
