"""Running the command `bendybus` as users do: another process, with its own environment."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bendybus

SOURCE = Path(bendybus.__file__).parents[1]
SECONDS_MAX = 60
LAST_LINE = 'ServiceBusMessage("hello"))'


def environment(**variables: str) -> dict[str, str]:
    """Return an environment without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENDYBUS_")}
    return {**kept, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "COLUMNS": "200", **variables}


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "bendybus", *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@dataclass
class Serving:
    """A broker that said it is ready."""

    process: subprocess.Popen[str]
    announcement: str
    ready: dict[str, Any]

    def end(self, signal_number: int) -> tuple[int, str]:
        """Send a signal and return the exit code and what went to standard error."""
        self.process.send_signal(signal_number)
        _, errors = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, errors


@contextmanager
def serving(folder: Path, *arguments: str | Path, **variables: str) -> Iterator[Serving]:
    """Start a broker on free ports and wait until it has said all it says."""
    ready_file = folder / "ready.json"
    options = ["--data", folder / "data", "--ready-file", ready_file, "--stores", "2"]
    ports = ["--amqp-port", "0", "--http-port", "0"]
    if "--flight-port" not in arguments:
        ports += ["--flight-port", "none"]
    with subprocess.Popen(
        [sys.executable, "-m", "bendybus", "serve", *map(str, (*options, *ports, *arguments))],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            text = _read_announcement(process)
            yield Serving(process, text, json.loads(ready_file.read_text()))
        finally:
            process.kill()


def _read_announcement(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip().endswith(LAST_LINE):
            return "".join(lines)
    raise AssertionError(f"the broker ended: {''.join(lines)}{process.stderr.read()}")
