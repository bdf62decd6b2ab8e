"""A real cluster: Spark's own master and workers, each a process of its own on this machine."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from bendybus.pipelines.java import java_home

HOME = Path(pyspark.__file__).parent
READY_SECONDS_MAX = 60.0


@contextmanager
def standalone_cluster(folder: Path, *, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of one core each; yield the master's URL."""
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
            stack.enter_context(worker)
        _awaited(log, r"Registering worker (\S+)", workers)
        yield url


@contextmanager
def _process(log: Path, role: str, *arguments: str) -> Iterator[None]:
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
        yield
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
