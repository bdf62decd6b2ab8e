"""A real cluster: Spark's own master and workers, each a process of its own on this machine."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from bendybus.pipelines.java import java_home

HOME = Path(pyspark.__file__).parent
READY_SECONDS_MAX = 60.0


class Cluster:
    """Where Spark's master is, and the processes of the workers."""

    def __init__(self, url: str, workers: Sequence[int]) -> None:
        self.url = url
        self._workers = workers

    def kill_executor(self) -> bool:
        """Kill a process that runs tasks, of any worker; False if there is none now."""
        for worker in self._workers:
            for children in Path(f"/proc/{worker}/task").glob("*/children"):
                for child in children.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
                    return True
        return False


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Start a master and workers of one core each."""
    pids: list[int] = []
    with ExitStack() as stack:
        log = folder / "master.log"
        anywhere = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        stack.enter_context(_process(log, "master.Master", *anywhere))
        url = _awaited(log, r"Starting Spark master at (spark://\S+)", 1)[0]
        for number in range(workers):
            work = (
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(folder / f"worker-{number}"),
            )
            worker = _process(
                folder / f"worker-{number}.log", "worker.Worker", *anywhere, *work, url
            )
            pids.append(stack.enter_context(worker))
        _awaited(log, r"Registering worker (\S+)", workers)
        yield Cluster(url, pids)


@contextmanager
def _process(log: Path, role: str, *arguments: str) -> Iterator[int]:
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _awaited(log: Path, pattern: str, count: int) -> list[str]:
    """Wait until the log says it that often."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while len(found := re.findall(pattern, log.read_text())) < count:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found
