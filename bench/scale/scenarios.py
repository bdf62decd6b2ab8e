"""The scenarios past one process by name, each with the kinds of entity that it plays on."""

from collections.abc import Mapping
from typing import Final

from bench.features.scenarios import PARTITIONED, Feature
from bench.scale.front_ends import front_ends
from bench.scale.postgres import one_front_end, one_store
from bench.scale.workers import workers

SCALE: Final[Mapping[str, Feature]] = {
    "postgres": Feature(PARTITIONED, (one_store, one_front_end)),
    "workers": Feature(PARTITIONED, (workers,)),
    "front-ends": Feature(PARTITIONED, (front_ends,)),
}
