"""Two brokers side by side, one with the feature and one without, that take turns.

Each side has a broker, a folder and entities of its own, and is idle while the other works: so what
the machine does meanwhile hits both, and what one side leaves behind (bytes on disk, ids in a
window, rows in an index) is not in the other's figures.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.clients import Clients
from bench.features.load import Marks, send_marked
from bench.processes import with_cpu_shares
from bench.readings import Figure, Reading
from bench.scenarios import SMALL_BODY_BYTES, WARM_UP_MESSAGES, Turn
from bench.size import FeatureSize, Size
from bench.subject_bendybus import KINDS, Bendybus, Entities, Properties, Topic

Slice = Callable[[int], Iterable[Reading]]


class Side(Turn):
    """One of the two brokers: the entity under load has the name of its kind."""

    def __init__(self, turn: Turn, folder: Path) -> None:
        super().__init__(turn.clients, turn.broker, turn.queue, turn.size)
        self.folder = folder

    def fill(self, count: int, marks: Marks, body_bytes: int = SMALL_BODY_BYTES) -> float:
        """Send messages with unique ids; accepted messages per second."""
        return send_marked(self, count, marks, body_bytes=body_bytes)

    def measured_fill(
        self, figure: Figure, count: int, marks: Marks, body_bytes: int = SMALL_BODY_BYTES
    ) -> Reading:
        """The same as a reading, with the cores that were busy."""
        rate, cpu = with_cpu_shares(
            self.broker.pid, lambda: self.fill(count, marks, body_bytes=body_bytes)
        )
        return self.reading(figure, rate, body_bytes=body_bytes, cpu=cpu)


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a scenario of one kind of entity plays."""

    clients: Clients
    size: Size
    folder: Path
    kind: str

    @property
    def amounts(self) -> FeatureSize:
        """How much the scenario does."""
        return self.size.features

    @contextmanager
    def queue(self, name: str, **properties: object) -> Iterator[Side]:
        """A broker with one queue of the kind."""
        entities = Entities({self.kind: {**KINDS[self.kind], **properties}})
        with self._side(name, entities) as side:
            yield side

    @contextmanager
    def topic(self, name: str, subscriptions: Mapping[str, list[Properties]]) -> Iterator[Side]:
        """A broker with one topic of the kind."""
        topic = Topic(KINDS[self.kind], subscriptions)
        with self._side(name, Entities({}, {self.kind: topic})) as side:
            yield side

    @contextmanager
    def queues(
        self, name: str, others: Mapping[str, Properties], *, has_bulk: bool = False
    ) -> Iterator[Side]:
        """A broker with one queue of the kind and others like it beside, differing as they say."""
        kind = KINDS[self.kind]
        different = {other: {**kind, **properties} for other, properties in others.items()}
        entities = Entities({self.kind: kind, **different})
        with self._side(name, entities, has_bulk=has_bulk) as side:
            yield side

    @contextmanager
    def _side(self, name: str, entities: Entities, *, has_bulk: bool = False) -> Iterator[Side]:
        folder = self.folder / name
        with Bendybus(entities, has_bulk=has_bulk).running(folder) as broker:
            side = Side(Turn(self.clients, broker, self.kind, self.size), folder)
            yield side


def in_turns(repeats: int, *slices: Slice) -> Iterator[Reading]:
    """Repeat the slices of all sides, the order turned around from time to time."""
    for number in range(repeats):
        for take in slices if number % 2 == 0 else reversed(slices):
            yield from take(number)


def warm_up(*sides: Side, sessions: int = 0) -> None:
    """Send some messages to each side; they stay, as all messages do that are only sent."""
    for side in sides:
        side.fill(WARM_UP_MESSAGES, Marks("warm-", sessions=sessions))
