"""The scenarios of features by name, each with the kinds of entity that it plays on."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bench.features.due import due_at_once
from bench.features.duplicates import duplicates
from bench.features.filters import correlations, sql_filter
from bench.features.sessions import accepting, sessions
from bench.features.stage import Stage
from bench.features.topics import topics
from bench.readings import Reading

Play = Callable[[Stage], Iterator[Reading]]

BOTH: Final = ("conventional", "partitioned")
PARTITIONED: Final = ("partitioned",)


@dataclass(frozen=True, slots=True)
class Feature:
    """What is played, one after the other, on each of the kinds."""

    kinds: tuple[str, ...]
    plays: tuple[Play, ...]

    def readings(self, stage: Stage) -> Iterator[Reading]:
        """Play everything on one kind of entity."""
        for play in self.plays:
            yield from play(stage)


FEATURES: Final[Mapping[str, Feature]] = {
    "topics": Feature(BOTH, (topics,)),
    "sessions": Feature(BOTH, (sessions, accepting)),
    "duplicates": Feature(BOTH, (duplicates,)),
    "filters": Feature(PARTITIONED, (sql_filter, correlations)),
    "due": Feature(PARTITIONED, (due_at_once,)),
}
