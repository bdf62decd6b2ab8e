"""Which versions of Spark the source is good for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_servicebus.spark_version import SparkTooOld, check_spark
from tests.cli.command import SECONDS_MAX, SOURCE, environment


@pytest.mark.parametrize("version", ["3.5.1", "4.0.2", "unknown"])
def test_a_spark_that_is_too_old_is_refused(version: str) -> None:
    with pytest.raises(SparkTooOld, match=rf"needs Spark 4\.1 or newer, and this is {version}"):
        check_spark(version)


@pytest.mark.parametrize("version", ["4.1.0", "4.3.0", "4.10.0.dev1", "5.0.0"])
def test_every_newer_spark_is_good(version: str) -> None:
    check_spark(version)


def test_a_spark_without_sources_in_python_is_refused_at_the_import(tmp_path: Path) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text('__version__ = "3.5.9"\n')
    done = subprocess.run(
        [sys.executable, "-c", "import pyspark_servicebus"],
        env=environment(PYTHONPATH=os.pathsep.join(map(str, (tmp_path, SOURCE)))),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode != 0
    assert "SparkTooOld: servicebus needs Spark 4.1 or newer, and this is 3.5.9;" in done.stderr
