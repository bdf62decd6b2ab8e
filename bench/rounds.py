"""Who is measured when: rounds in which the systems take turns, each alone on the machine.

A broker is started for its turn on a new folder and stopped after it, so that no other broker's
background work is in anyone's figures, and every round begins from the same state. The order is
turned around from round to round, so that a machine that slows down (heat, a busy disk) does not
always hit the same one.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench import scenarios
from bench.brokers import RunningBroker, System
from bench.clients import Clients
from bench.doors.scenarios import DOORS
from bench.features.scenarios import FEATURES, Feature
from bench.features.stage import Stage
from bench.processes import BenchmarkError
from bench.readings import Figure, Reading, Readings, unit_of
from bench.scale.scenarios import SCALE
from bench.scenarios import SMALL_BODY_BYTES, Turn
from bench.size import Size
from bench.spark.scenarios import SPARK

# What is measured together and shown together: beside the peer, with a feature beside without, over
# HTTP, by Spark, and past one process.
PEER_PART: Final = "peer"
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    PEER_PART: ("throughput", "latency", "idle", "backlog"),
    "features": tuple(FEATURES),
    "doors": tuple(DOORS),
    "spark": tuple(SPARK),
    "scale": tuple(SCALE),
}
SCENARIOS: Final = tuple(name for part in PARTS.values() for name in part)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a scenario needs, and where its readings go."""

    peer: System
    subject: System
    clients: Clients
    size: Size
    folder: Path
    readings: Readings
    say: Callable[[str], None]

    def perform(self, chosen: Sequence[str]) -> None:
        """Run the chosen scenarios, always in the order of `SCENARIOS`."""
        beside = (self._throughput, self._latency, self._idle, self._backlog)
        alone = (*FEATURES.values(), *DOORS.values(), *SPARK.values(), *SCALE.values())
        features = tuple(partial(self._feature, feature) for feature in alone)
        performers: tuple[Callable[[], None], ...] = (*beside, *features)
        for scenario, perform in zip(SCENARIOS, performers, strict=True):
            if scenario in chosen:
                self.say(f"{scenario}:")
                perform()

    def _turns(self) -> Iterator[System]:
        """The systems, in alternating order, for all rounds."""
        for number in range(self.size.rounds):
            self.say(f"  round {number + 1} of {self.size.rounds}")
            forwards = (self.peer, self.subject)
            yield from forwards if number % 2 == 0 else reversed(forwards)

    def _throughput(self) -> None:
        for system in self._turns():
            with self._fresh(system) as broker:
                for queue in system.queues:
                    turn = Turn(self.clients, broker, queue, self.size)
                    turn.warm_up()
                    for body_bytes in self.size.body_bytes:
                        self._keep(scenarios.throughput(turn, body_bytes))

    def _latency(self) -> None:
        queue_of_peer, top = self._peer_top()
        for system in self._turns():
            with self._fresh(system) as broker:
                for queue in (queue_of_peer,) if system is self.peer else system.queues:
                    turn = Turn(self.clients, broker, queue, self.size)
                    turn.warm_up()
                    self._keep(scenarios.latency(turn, top / 2))

    def _peer_top(self) -> tuple[str, float]:
        """The peer's fastest queue and its rate of sends, read now if that was not done before."""
        if self._peer_sends() == {}:
            with self._fresh(self.peer) as broker:
                for queue in self.peer.queues:
                    turn = Turn(self.clients, broker, queue, self.size)
                    turn.warm_up()
                    rate = turn.send(self.size.messages)
                    self._keep([turn.reading(Figure.SEND, rate)])
        rates = self._peer_sends()
        queue = max(rates, key=rates.__getitem__)
        return queue, rates[queue]

    def _peer_sends(self) -> dict[str, float]:
        rates = {
            queue: self.readings.median(Figure.SEND, f"{self.peer.name} {queue}", SMALL_BODY_BYTES)
            for queue in self.peer.queues
        }
        return {queue: rate for queue, rate in rates.items() if rate is not None}

    def _idle(self) -> None:
        for system in self._turns():
            with self._fresh(system) as broker:
                turn = Turn(self.clients, broker, system.queues[-1], self.size)
                self._keep(scenarios.idle(turn))

    def _backlog(self) -> None:
        """Both of our queues, and the peer's fastest for comparison. Repeats are inside a turn."""
        queue_of_peer, _ = self._peer_top()
        turns = [(self.peer, queue_of_peer)] + [(self.subject, q) for q in self.subject.queues]
        for system, queue in turns:
            with self._empty_folder(system) as folder:
                self._keep(scenarios.backlog(self.clients, system, queue, self.size, folder))

    def _feature(self, feature: Feature) -> None:
        """Ours alone: with the feature and without it, in turns within each kind of entity."""
        for kind in feature.kinds:
            with self._empty_folder(self.subject) as folder:
                stage = Stage(self.clients, self.size, folder, kind)
                self._keep(feature.readings(stage))

    @contextmanager
    def _fresh(self, system: System) -> Iterator[RunningBroker]:
        with self._empty_folder(system) as folder, system.running(folder) as broker:
            yield broker

    @contextmanager
    def _empty_folder(self, system: System) -> Iterator[Path]:
        """A folder that goes with its turn, except after a failure: then its logs are of use."""
        folder = self.folder / system.name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            yield folder
        except BenchmarkError:
            self.say(f"  what {system.name} left behind is kept in {folder}")
            raise
        shutil.rmtree(folder, ignore_errors=True)

    def _keep(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            self.readings.add([reading])
            subject = reading.subject
            value = f"{reading.value:12,.1f} {unit_of(subject.figure)}"
            self.say(
                f"    {subject.target:24} {subject.body_bytes:5} B  {subject.figure:40}{value}"
            )
