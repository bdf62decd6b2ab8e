"""The Spark session of a pipeline: on this machine, or on any cluster by its master URL."""

import os
import re
import signal
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from bendybus.pipelines.failure import PipelineFailed, reason_of
from bendybus.pipelines.installed import check_version
from bendybus.pipelines.java import java_home

# Every core of this machine, and four attempts for each task: without them, one lost worker
# process would end the pipeline.
LOCAL_MASTER: Final = "local[*,4]"
_LOCAL: Final = re.compile(r"local(\[(?P<cores>\*|\d+)[^\]]*\])?")
_LOOPBACK: Final = "127.0.0.1"
_STREAMING: Final = "org.apache.spark.sql.execution.streaming"
# These print what is raised as well, with the way that it took through Java.
_ECHOES: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
# What tasks import of ours.
_SHIPPED: Final = ("bendybus", "pyspark_servicebus")


@contextmanager
def spark_session(
    name: str, master: str = LOCAL_MASTER, confs: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Run Spark while the block runs. Raises `PipelineFailed` if it does not start.

    `confs` are settings of Spark that count before ours. Only for the main thread.
    """
    cores = cores_of(master)
    _prepare_environment(is_local=cores is not None)
    for echo in _ECHOES:
        PySparkLogger.getLogger(echo).disabled = True
    builder = SparkSession.builder.appName(name).master(master)
    settings = _settings() | (_cluster_settings() if cores is None else _local_settings(cores))
    for key, value in {**settings, **(confs or {})}.items():
        builder = builder.config(key, value)
    interrupted = signal.getsignal(signal.SIGINT)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError) as error:
        raise PipelineFailed(f"Spark does not start at {master}: {reason_of(error)}") from error
    # Spark's own handler calls Java from within whatever call was interrupted.
    signal.signal(signal.SIGINT, interrupted)
    try:
        check_version(spark.version)
        with nullcontext() if cores is not None else _shipped(spark):
            yield spark
    finally:
        spark.stop()


def cores_of(master: str) -> int | None:
    """Return how many cores of this machine a master URL means; None if it means a cluster."""
    local = _LOCAL.fullmatch(master)
    if local is None:
        return None
    if local["cores"] == "*":
        return os.cpu_count() or 1
    return int(local["cores"] or 1)


def _prepare_environment(*, is_local: bool) -> None:
    """Set what Spark reads from the environment, where the user did not."""
    os.environ["JAVA_HOME"] = str(java_home())
    # Else tasks run in whatever `python3` is on PATH, which knows nothing of the data source.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)


def _settings() -> dict[str, str]:
    log = resources.files("bendybus.pipelines") / "log4j2.properties"
    return {
        # In quotes: the path may have spaces.
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log}"',
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A task of a Python source costs half as much.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.python.filterPushdown.enabled": "true",
        # The same message is of the same day wherever the pipeline runs.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": (
            f"{_STREAMING}.state.RocksDBStateStoreProvider"
        ),
    }


def _local_settings(cores: int) -> dict[str, str]:
    return {
        "spark.driver.host": _LOOPBACK,
        # Everything runs in this one process.
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": str(cores),
        # Made for object stores, the default starts processes at each commit: 50 ms of a batch.
        "spark.sql.streaming.checkpointFileManagerClass": (
            f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
    }


def _cluster_settings() -> dict[str, str]:
    return {"spark.submit.deployMode": "client"}


@contextmanager
def _shipped(spark: SparkSession) -> Iterator[None]:
    """Give the cluster's workers our code, so that they need only pyspark and pyarrow.

    They fetch it when they have their first task, or are new: it stays as long as the session.
    """
    with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
        archive = Path(folder) / "bendybus-pipelines.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
            for package in _SHIPPED:
                spec = find_spec(package)
                for place in spec.submodule_search_locations or () if spec else ():
                    for path in sorted(Path(place).rglob("*.py")):
                        written.write(path, path.relative_to(Path(place).parent))
        spark.sparkContext.addPyFile(str(archive))
        yield
