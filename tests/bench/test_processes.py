"""What the kernel says of processes that we know."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.machine import filesystem_of
from bench.processes import (
    BenchmarkError,
    busy_seconds,
    cpu_seconds,
    environment_without,
    family,
    figures_of,
    resident_bytes,
    stop,
    wait_until,
    with_cpu_shares,
)

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
input()
"""


def test_a_family_is_a_process_with_its_descendants() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert family(parent.pid) == [parent.pid, child]
        alone = int(Path(f"/proc/{parent.pid}/statm").read_text().split()[1])
        assert resident_bytes(parent.pid) > alone * os.sysconf("SC_PAGE_SIZE")
        parent.communicate(b"\n")


def test_a_descendant_that_ends_while_it_is_looked_at_is_left_out() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        figures = figures_of(parent.pid, "stat")
        assert next(figures).startswith(f"{parent.pid} ")
        parent.communicate(b"\n")
    # It reads from its parent, and ends with it.
    wait_until(lambda: not Path(f"/proc/{child}").exists(), seconds_max=10, what="its end")
    assert list(figures) == []
    with pytest.raises(FileNotFoundError):
        next(figures_of(parent.pid, "stat"))


def test_a_busy_broker_and_idle_clients_are_told_apart() -> None:
    def spin() -> None:
        until = cpu_seconds(os.getpid()) + 0.1
        wait_until(lambda: cpu_seconds(os.getpid()) >= until, seconds_max=10, what="processor time")

    _, shares = with_cpu_shares(os.getpid(), spin)
    assert shares.broker_cores > 0
    assert shares.client_cores == 0


def test_the_machine_is_busy_for_as_long_as_its_processes_and_on_all_of_its_cores_at_most() -> None:
    begun, ours, all_of_it = time.monotonic(), cpu_seconds(os.getpid()), busy_seconds()
    until = ours + 0.1
    wait_until(lambda: cpu_seconds(os.getpid()) >= until, seconds_max=10, what="processor time")
    spent, seconds = busy_seconds() - all_of_it, time.monotonic() - begun
    # Each of the cores, and each process, is read to a hundredth of a second.
    cores = os.cpu_count() or 1
    assert 0.1 - 0.02 * cores <= spent <= (seconds + 0.02) * cores


def test_a_brokers_own_variables_are_kept_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_SETTING", "fast")
    monkeypatch.setenv("OTHER_SETTING", "kept")
    environment = environment_without("BROKER_")
    assert "BROKER_SETTING" not in environment
    assert environment["OTHER_SETTING"] == "kept"


def test_waiting_in_vain_names_what_was_waited_for() -> None:
    with pytest.raises(BenchmarkError, match="for the moon"):
        wait_until(lambda: False, seconds_max=0, what="the moon")


def test_a_process_that_has_ended_can_be_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        stop(process)
        assert process.returncode == 0


def test_a_folder_is_on_the_filesystem_of_the_longest_mount_above_it() -> None:
    assert filesystem_of(Path("/proc/self")) == "proc"
