"""Whether the Spark that is installed here will do: asked before anything imports it."""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from bendybus.pipelines.failure import PipelineFailed

SPARK_MIN: Final = (4, 1)
_INSTALL: Final = "pip install 'bendybus[spark]'"


def check_spark() -> None:
    """Raise `PipelineFailed` if Spark is not installed, or is too old."""
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        raise PipelineFailed(f"pipelines run on Spark; install it with: {_INSTALL}") from None
    check_version(found)


def check_version(found: str) -> None:
    """Raise `PipelineFailed` if this version of Spark is too old."""
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < SPARK_MIN:
        least = ".".join(map(str, SPARK_MIN))
        raise PipelineFailed(
            f"Spark {found} is too old, {least} or newer is needed; install it with:"
            f" {_INSTALL} --upgrade"
        )
