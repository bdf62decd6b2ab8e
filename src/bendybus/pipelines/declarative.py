"""Projects for Spark's own runner of declarative pipelines, `spark-pipelines`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.installed import check_spark
from bendybus.pipelines.java import java_home

SPECIFICATION: Final = "spark-pipeline.yml"
# Stands in the template for what is known only when a project is made.
_FOLDER: Final = "@FOLDER@"
_NAME: Final = "@NAME@"


def make_project(folder: Path) -> list[Path]:
    """Write a project that reads and writes the bus; return its files.

    Raises `PipelineFailed`, and writes nothing, if the folder holds something already.
    """
    if folder.exists() and any(folder.iterdir()):
        raise PipelineFailed(f"{folder} is not empty; name a new folder")
    written: list[Path] = []
    _copy(resources.files("bendybus.pipelines") / "project", folder, folder.resolve(), written)
    return written


def _copy(source: Traversable, target: Path, root: Path, written: list[Path]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for each in sorted(source.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            if each.name != "__pycache__":
                _copy(each, target / each.name, root, written)
            continue
        text = each.read_text(encoding="utf-8")
        path = target / each.name
        path.write_text(
            text.replace(_FOLDER, root.as_uri()).replace(_NAME, root.name), encoding="utf-8"
        )
        written.append(path)


def run_project(folder: Path, arguments: Sequence[str]) -> int:
    """Run a project by `spark-pipelines`, and return its exit code. Raises `PipelineFailed`."""
    check_spark()
    runner = _runner()
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONF_DIR": str((folder / "conf").resolve()),
        **os.environ,
        "JAVA_HOME": str(java_home()),
    }
    command = [runner, "run", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode  # noqa: S603 - Spark's own


def _runner() -> str:
    """Return the program `spark-pipelines` of this Python, or of PATH."""
    own = Path(sys.executable).with_name("spark-pipelines")
    found = str(own) if own.exists() else shutil.which("spark-pipelines")
    if found is None:
        raise PipelineFailed("spark-pipelines is not installed; run: pip install 'bendybus[spark]'")
    return found
