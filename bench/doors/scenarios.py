"""The scenarios of the doors by name, each with the kinds of entity that it plays on."""

from collections.abc import Mapping
from typing import Final

from bench.doors.management import management
from bench.doors.redrive import redrive
from bench.doors.rest import rest
from bench.features.scenarios import BOTH, Feature

DOORS: Final[Mapping[str, Feature]] = {
    "rest": Feature(BOTH, (rest,)),
    "management": Feature(BOTH, (management,)),
    "redrive": Feature(BOTH, (redrive,)),
}
