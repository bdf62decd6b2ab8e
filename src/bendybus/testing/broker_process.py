"""A real broker in a process of its own, for tests that must see it start, stop or die."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

from bendybus.settings import TlsFiles

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 15.0
_POLL_SECONDS: Final = 0.02


class BrokerProcess:
    """Starts `bendybus serve` on a folder, as often as a test likes.

    The first start takes free ports; later ones take the same, so that clients find it again.
    """

    def __init__(
        self,
        folder: Path,
        config: Path,
        options: Sequence[str] = (),
        tls: TlsFiles | None = None,
        *,
        stores: Sequence[str] = (),
        has_flight: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        # What its process has beside what this one has.
        self._environment = environment
        # The URLs of its stores; without any they are files in the folder.
        self.stores = stores
        self.amqp_port = 0
        self.http_port = 0
        # 0 without a certificate.
        self.amqps_port = 0
        self.https_port = 0
        # 0 unless the broker is to serve Arrow Flight, which takes it longer to start.
        self.flight_port = 0
        self.flight_tls_port = 0
        self._config = config
        self._options = options
        self._tls = tls
        self._has_flight = has_flight
        self._process: subprocess.Popen[bytes] | None = None
        self._has_started = False

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
        """Return what a client needs, without encryption."""
        return (
            f"{self.encrypted_connection_string(self.amqp_port, key)}UseDevelopmentEmulator=true;"
        )

    def encrypted_connection_string(self, port: int, key: str = "SAS_KEY_VALUE") -> str:
        """Return what a client needs that comes by `amqps_port` or `https_port`.

        Some clients want to be told the port in another way.
        """
        return (
            f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            f"SharedAccessKey={key};"
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
            *("--config", str(self._config), *self._store_options()),
            *("--amqp-port", str(self.amqp_port), "--http-port", str(self.http_port)),
            *("--flight-port", str(self.flight_port) if self._has_flight else "none"),
            *("--ready-file", str(ready), *self._tls_options(), *self._options),
        ]
        deadline = time.monotonic() + START_SECONDS_MAX
        process = self._launch(command)
        while not ready.exists():
            has_ended = process.poll() is not None
            if time.monotonic() > deadline or (has_ended and not self._has_lost_its_port()):
                self.kill()
                raise AssertionError(f"the broker did not start:\n{self.log}")
            if has_ended:
                process = self._launch(command)
            time.sleep(_POLL_SECONDS)
        ports = json.loads(ready.read_text())
        self.amqp_port, self.http_port = ports["amqp_port"], ports["http_port"]
        self.amqps_port, self.https_port = ports["amqps_port"] or 0, ports["https_port"] or 0
        self.flight_port = ports["flight_port"] or 0
        self.flight_tls_port = ports["flight_tls_port"] or 0
        self._has_started = True

    def _launch(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdout=log, stderr=log, env={**os.environ, **self._environment}
            )
        return self._process

    def _has_lost_its_port(self) -> bool:
        """Whether another process took a port while this one was down, which the kernel may do.

        A client's connection out of it is soon over.
        """
        lines = self.log.splitlines()
        return self._has_started and bool(lines) and "is used by another process" in lines[-1]

    def _store_options(self) -> Iterator[str]:
        for url in self.stores:
            yield from ("--store", url)
        if not self.stores:
            yield from ("--data", str(self.folder / "data"))

    def _tls_options(self) -> Iterator[str]:
        if self._tls is not None:
            yield from ("--tls-cert", str(self._tls.cert), "--tls-key", str(self._tls.key))
            yield from ("--amqps-port", str(self.amqps_port))
            yield from ("--https-port", str(self.https_port))
            yield from ("--flight-tls-port", str(self.flight_tls_port))

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a warning, as a power cut would end the process."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop the process where it is; to others it is a broker that does not answer."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

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
    config: Path,
    *,
    folder: Path | None = None,
    options: Sequence[str] = (),
    tls: TlsFiles | None = None,
    stores: Sequence[str] = (),
    has_flight: bool = False,
) -> Iterator[BrokerProcess]:
    """Run a broker while the block runs, in a temporary folder unless one is given."""
    with tempfile.TemporaryDirectory(prefix="bendybus-") as temporary:
        broker = BrokerProcess(
            folder or Path(temporary), config, options, tls, stores=stores, has_flight=has_flight
        )
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()
