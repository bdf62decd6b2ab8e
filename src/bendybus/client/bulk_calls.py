"""How the bulk door is called: where it is, what opens it, and when a call is made again."""

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from pyarrow import flight

from bendybus.client.bulk_errors import translated
from bendybus.client.bulk_values import Place
from bendybus.client.endpoint import credential_of, utc_now
from bendybus.client.errors import ClientError
from bendybus.model.connection_string import ConnectionString, parse_connection_string
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.hosts import address_of

FLIGHT_PORT: Final = 5301
FLIGHT_TLS_PORT: Final = 5302
# A little longer than the broker allows itself.
SECONDS_MAX: Final = 90.0
LONG_SECONDS_MAX: Final = 630.0
# How long a call is made again and again, and how long between.
PATIENCE_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 2.0
_HOST_HEADER: Final = b"x-servicebus-host"
_SCHEMES: Final = ("grpc", "grpc+tcp", "grpc+tls")
_OPTIONS: Final = [
    # Left to itself, gRPC waits for up to two minutes before it tries again to connect.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Not more often: servers take it for an attack.
    ("grpc.keepalive_time_ms", 310_000),
    # As much as a batch may come without a word from us. Left to itself, gRPC begins with 64 KiB,
    # and both sides wait for each other: some 8 % of what a bulk read costs them.
    ("grpc.http2.lookahead_bytes", 8 * 1024 * 1024),
]


class BulkCalls:
    """Makes calls, on one connection, which is there when it is first needed."""

    def __init__(
        self,
        connection_string: str,
        endpoint: str | None = None,
        *,
        authority: Path | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """Say where to: by default port 5301 of the connection's host, with TLS 5302.

        `authority` is the certificate to trust, in PEM form; by default those of the system.
        """
        self._given = parse_connection_string(connection_string)
        self.endpoint = flight_endpoint(self._given, endpoint)
        self._authority = authority
        self.patience_seconds = patience_seconds
        self._flight: flight.FlightClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_flight": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; the next call makes a new one."""
        connected, self._flight = self._flight, None
        if connected is not None:
            connected.close()

    def ask(
        self,
        action: str,
        place: Place,
        body: Mapping[str, object],
        *,
        is_repeated: bool = True,
        seconds: float = SECONDS_MAX,
    ) -> dict[str, Any]:
        """Ask for an action, again if that can help, and return the answer."""
        patience = Patience(self.patience_seconds if is_repeated else 0)
        content = as_json({**asdict(place), **body})
        while True:
            try:
                with translated(self.endpoint):
                    options = self.options(place, seconds)
                    asked = flight.Action(action, content)
                    [answer] = self.connected().do_action(asked, options)
                    told: dict[str, Any] = json.loads(answer.body.to_pybytes())
                    return told
            except ClientError as error:
                patience.wait_after(error)

    def connected(self) -> flight.FlightClient:
        """Return the connection. Trying it is left to the first call."""
        if self._flight is None:
            roots = None
            if self.endpoint.startswith("grpc+tls:"):
                file = self._authority or ssl.get_default_verify_paths().cafile
                # There is none on some systems; gRPC has its own then.
                roots = Path(file).read_bytes() if file else None
            self._flight = flight.FlightClient(
                self.endpoint, tls_root_certs=roots, generic_options=_OPTIONS
            )
        return self._flight

    def options(self, place: Place, seconds: float | None = None) -> flight.FlightCallOptions:
        """Return what a call about an entity carries beside its body."""
        token = credential_of(self._given).token_for(place.entity, utc_now())
        headers = [(b"authorization", token.encode()), (_HOST_HEADER, self._given.host.encode())]
        return flight.FlightCallOptions(timeout=seconds, headers=headers)


class Patience:
    """How long something is tried again, at growing intervals."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds
        self._pause = _PAUSE_SECONDS

    def wait_after(self, error: ClientError) -> None:
        """Wait before the next try; raises the error if there should be none."""
        if not error.is_retryable or time.monotonic() + self._pause > self._ends_at:
            raise error
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _PAUSE_SECONDS_MAX)


def flight_endpoint(given: ConnectionString, endpoint: str | None = None) -> str:
    """Return where a namespace serves Flight: as given, or found by its connection string.

    Raises `ArgumentInvalid`.
    """
    if endpoint is None:
        host = f"[{given.host}]" if ":" in given.host else address_of(given.host)
        if given.use_development_emulator:
            return f"grpc://{host}:{FLIGHT_PORT}"
        return f"grpc+tls://{host}:{FLIGHT_TLS_PORT}"
    parts = urlsplit(endpoint)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ArgumentInvalid(
            f"the Flight endpoint {endpoint!r} must be like grpc://localhost:{FLIGHT_PORT}, or"
            f" grpc+tls://{parts.hostname or 'host'}:{FLIGHT_TLS_PORT}"
        )
    return endpoint


def as_json(value: Mapping[str, object]) -> bytes:
    """Write what a call carries."""
    return json.dumps(value).encode()
