"""A real broker in a process of its own, for tests that must see it start, stop or die."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

START_SECONDS_MAX: Final = 30.0
STOP_SECONDS_MAX: Final = 15.0
_POLL_SECONDS: Final = 0.02


class BrokerProcess:
    """Starts `bendybus serve` on a folder, as often as a test likes.

    The first start takes free ports; later ones take the same, so that clients find it again.
    """

    def __init__(self, folder: Path, config: Path, options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.amqp_port = 0
        self.http_port = 0
        self._config = config
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What the broker printed so far, over all its lives."""
        return (self.folder / "broker.log").read_text()

    def connection_string(self, key: str = "SAS_KEY_VALUE") -> str:
        """Return what a client needs."""
        return (
            f"Endpoint=sb://localhost:{self.amqp_port};"
            "SharedAccessKeyName=RootManageSharedAccessKey;"
            f"SharedAccessKey={key};UseDevelopmentEmulator=true;"
        )

    @property
    def management_url(self) -> str:
        """Where its management API is."""
        return f"http://localhost:{self.http_port}"

    def start(self) -> None:
        """Start, and return once clients can connect.

        Call it from a thread that lives as long as the broker should: the kernel ends the broker
        with the thread that started it.
        """
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        command = [
            # A test run that is killed must not leave brokers behind.
            *(("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()),
            *(sys.executable, "-m", "bendybus", "serve"),
            *("--config", str(self._config), "--data", str(self.folder / "data")),
            *("--amqp-port", str(self.amqp_port), "--http-port", str(self.http_port)),
            *("--ready-file", str(ready), *self._options),
        ]
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own command
        deadline = time.monotonic() + START_SECONDS_MAX
        while not ready.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the broker did not start:\n{self.log}")
            time.sleep(_POLL_SECONDS)
        ports = json.loads(ready.read_text())
        self.amqp_port, self.http_port = ports["amqp_port"], ports["http_port"]

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a warning, as a power cut would end the process."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


@contextmanager
def broker_process(
    config: Path, *, folder: Path | None = None, options: Sequence[str] = ()
) -> Iterator[BrokerProcess]:
    """Run a broker while the block runs, in a temporary folder unless one is given."""
    with tempfile.TemporaryDirectory(prefix="bendybus-") as temporary:
        broker = BrokerProcess(folder or Path(temporary), config, options)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()
