"""This project's broker, run from the source tree with default settings."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.brokers import RunningBroker
from bench.processes import BenchmarkError, environment_without, stop, wait_until

SOURCE: Final = Path(__file__).resolve().parent.parent / "src"
START_SECONDS_MAX: Final = 60.0
USER: Final = "RootManageSharedAccessKey"
PASSWORD: Final = "SAS_KEY_VALUE"  # noqa: S105 - the documented development key

Properties = Mapping[str, object]

# A partitioned entity has 16 fragments of the size asked for; 5 GB is the most that may be asked.
KINDS: Final[Mapping[str, Properties]] = {
    "conventional": {"EnablePartitioning": False, "MaxSizeInMegabytes": 5120},
    "partitioned": {"EnablePartitioning": True, "MaxSizeInMegabytes": 5120},
}


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and the rules of each of its subscriptions; no rules let everything in."""

    properties: Properties
    subscriptions: Mapping[str, list[Properties]]


@dataclass(frozen=True, slots=True)
class Entities:
    """What a broker is configured with."""

    queues: Mapping[str, Properties]
    topics: Mapping[str, Topic] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """Every entity that a client may send to."""
        return (*self.queues, *self.topics)


PLAIN_QUEUES: Final = Entities(KINDS)


class Bendybus:
    """The broker that the promises are about."""

    name = "bendybus"

    def __init__(
        self,
        entities: Entities = PLAIN_QUEUES,
        options: Sequence[str] = (),
        *,
        has_bulk: bool = False,
    ) -> None:
        self._entities = entities
        # Of the command line, beside those that every broker here is given.
        self._options = options
        # Only where it is measured: what it loads would be in every figure of memory at rest.
        self._has_bulk = has_bulk

    @property
    def queues(self) -> tuple[str, ...]:
        """Everything that can be sent to."""
        return self._entities.names()

    def version(self) -> str:
        """The commit that was measured, marked when the tree differs from it."""
        describe = ["git", "describe", "--always", "--dirty"]
        return subprocess.run(
            describe, check=True, capture_output=True, text=True, cwd=SOURCE
        ).stdout.strip()

    @contextmanager
    def running(self, folder: Path) -> Iterator[RunningBroker]:
        """Start the broker on free ports and stop it at the end."""
        folder.mkdir(parents=True, exist_ok=True)
        ready_file = folder / "ready.json"
        ready_file.unlink(missing_ok=True)
        with (folder / "output.log").open("ab") as output:
            process = subprocess.Popen(
                [*self._command(folder, ready_file), *self._options],
                env=environment_without("BENDYBUS_") | {"PYTHONPATH": str(SOURCE)},
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for us; we stop the broker in good order
            )
        try:
            wait_until(
                lambda: ready_file.exists() or process.poll() is not None,
                seconds_max=START_SECONDS_MAX,
                what="bendybus to be ready",
            )
            if process.poll() is not None:
                raise BenchmarkError(f"bendybus did not start, see {folder / 'output.log'}")
            ports = json.loads(ready_file.read_text())
            yield RunningBroker(
                system=self.name,
                pid=process.pid,
                port=ports["amqp_port"],
                http_port=ports["http_port"],
                flight_port=ports["flight_port"] or 0,
                user=USER,
                password=PASSWORD,
                addresses={queue: queue for queue in self.queues},
            )
        finally:
            stop(process)

    def _command(self, folder: Path, ready_file: Path) -> list[str]:
        """The command of a user, on ports that are free, with a configuration written for it."""
        config = folder / "config.json"
        config.write_text(json.dumps(configuration(self._entities), indent=2))
        options = {
            "--config": config,
            "--data": folder / "data",
            "--amqp-port": 0,
            "--http-port": 0,
            "--flight-port": 0 if self._has_bulk else "none",
            "--ready-file": ready_file,
        }
        command = [sys.executable, "-m", "bendybus", "serve"]
        for option, value in options.items():
            command += [option, str(value)]
        return command


def configuration(entities: Entities) -> dict[str, object]:
    """The entities, in the format of the emulator's configuration."""
    queues = [
        {"Name": name, "Properties": dict(properties)}
        for name, properties in entities.queues.items()
    ]
    topics = [
        {
            "Name": name,
            "Properties": dict(topic.properties),
            "Subscriptions": [
                {"Name": subscription, "Properties": {}, "Rules": rules}
                for subscription, rules in topic.subscriptions.items()
            ],
        }
        for name, topic in entities.topics.items()
    ]
    namespace = {"Name": "sbemulatorns", "Queues": queues, "Topics": topics}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "Console"}}}
