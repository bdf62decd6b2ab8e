"""Running the command `bendybus` as users do: another process, with its own environment."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bendybus
import bendybus.cli

SOURCE = Path(bendybus.__file__).parents[1]
SECONDS_MAX = 60
LAST_LINE = 'ServiceBusMessage("hello"))'
_FORKSERVER = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(
    sorted({f"bendybus.cli.{place.partition(':')[0]}" for place in bendybus.cli.PLACES.values()})
)


def environment(**variables: str) -> dict[str, str]:
    """Return an environment without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENDYBUS_")}
    return {**kept, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "COLUMNS": "200", **variables}


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Its process is born of one that has imported all commands: that takes an interpreter longer than
    most commands take.
    """
    words = ["bendybus", *map(str, arguments)]
    with TemporaryDirectory() as folder:
        output, errors = Path(folder) / "output", Path(folder) / "errors"
        process = _FORKSERVER.Process(
            target=_become, args=(words, environment(**variables), output, errors)
        )
        process.start()
        process.join(SECONDS_MAX)
        code = process.exitcode
        process.kill()
        process.join()
        process.close()
        texts = output.read_text(), errors.read_text()
    assert code is not None, f"{words} did not end: {texts}"
    return subprocess.CompletedProcess(words, code, *texts)


def run_afresh(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in an interpreter that has imported nothing before."""
    return subprocess.run(
        [sys.executable, "-m", "bendybus", *map(str, arguments)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def _become(words: list[str], variables: Mapping[str, str], output: Path, errors: Path) -> None:
    """Be the command: with its words, environment and streams."""
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = words
    streams = [os.open(os.devnull, os.O_RDONLY)]
    streams += [os.open(path, os.O_CREAT | os.O_WRONLY, 0o600) for path in (output, errors)]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # For as long as the process lives.
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - as said
    bendybus.cli.main()


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
    options = ["--data", folder / "data", "--ready-file", ready_file]
    if "--store" not in arguments:
        options += ["--stores", "2"]
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
