"""This project's broker, run from the source tree with default settings."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.brokers import RunningBroker
from bench.processes import BenchmarkError, environment_without, stop, wait_until

SOURCE: Final = Path(__file__).resolve().parent.parent / "src"
START_SECONDS_MAX: Final = 60.0
USER: Final = "RootManageSharedAccessKey"
PASSWORD: Final = "SAS_KEY_VALUE"  # noqa: S105 - the documented development key

# A partitioned queue has 16 fragments of the size asked for; 5 GB is the most that may be asked.
QUEUE_PROPERTIES: Final[Mapping[str, Mapping[str, object]]] = {
    "conventional": {"EnablePartitioning": False, "MaxSizeInMegabytes": 5120},
    "partitioned": {"EnablePartitioning": True, "MaxSizeInMegabytes": 5120},
}


class Bendybus:
    """The broker that the promises are about."""

    name = "bendybus"
    queues = tuple(QUEUE_PROPERTIES)

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
                serve_command(folder, ready_file),
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
            yield RunningBroker(
                system=self.name,
                pid=process.pid,
                port=json.loads(ready_file.read_text())["amqp_port"],
                user=USER,
                password=PASSWORD,
                addresses={queue: queue for queue in self.queues},
            )
        finally:
            stop(process)


def serve_command(folder: Path, ready_file: Path) -> list[str]:
    """The command of a user, on ports that are free, with a configuration written for it."""
    config = folder / "config.json"
    config.write_text(json.dumps(configuration(), indent=2))
    options = {
        "--config": config,
        "--data": folder / "data",
        "--amqp-port": 0,
        "--http-port": 0,
        "--ready-file": ready_file,
    }
    command = [sys.executable, "-m", "bendybus", "serve"]
    for option, value in options.items():
        command += [option, str(value)]
    return command


def configuration() -> dict[str, object]:
    """The two queues, in the format of the emulator's configuration."""
    queues = [
        {"Name": name, "Properties": dict(properties)}
        for name, properties in QUEUE_PROPERTIES.items()
    ]
    namespace = {"Name": "sbemulatorns", "Queues": queues, "Topics": []}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "Console"}}}
