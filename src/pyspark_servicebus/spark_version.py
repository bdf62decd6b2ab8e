"""What differs between the versions of Spark that we run on."""

import re
from typing import Final

import pyspark

OLDEST: Final = (4, 1)


class SparkTooOld(RuntimeError):
    """This Spark lacks what the source is built on."""


def check_spark(version: str = pyspark.__version__) -> None:
    """Refuse a Spark without Arrow writers for streams."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise SparkTooOld(
            f"servicebus needs Spark {OLDEST[0]}.{OLDEST[1]} or newer, and this is {version};"
            " pip install 'bendybus[spark]'"
        )
