"""Getting to a broker and, after a loss, getting back."""

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from bendybus.client.connection import Connection
from bendybus.client.endpoint import TOKEN_RENEWED_AFTER, Credential, Endpoint, utc_now
from bendybus.client.errors import ClientClosed, ClientError, ConnectionLost, NotTrusted
from bendybus.client.requesting import request
from bendybus.client.steps import Connect, Flush, Step, Wait, pause, wait_for

T = TypeVar("T")

RETRY_SECONDS_MIN: Final = 0.05
RETRY_SECONDS_MAX: Final = 2.0
CONNECT_SECONDS_MAX: Final = 10.0
"""For one attempt; a host that does not answer at all must not use up the whole time allowed."""

_NO_USE_TRYING: Final = (ssl.SSLError, socket.gaierror)


class Connector:
    """Has the connection that all links of a client share, and makes another when it is lost."""

    def __init__(
        self,
        endpoint: Endpoint,
        credential: Credential,
        container_id: str,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.connection: Connection | None = None
        self.has_changed = False
        """Set when steps that wait must look again though nothing came from the broker."""
        self._endpoint = endpoint
        self._credential = credential
        self._container_id = container_id
        self._clock = clock
        self._is_connecting = False
        self._is_closed = False

    def check(self) -> None:
        """Raise if the client was closed."""
        if self._is_closed:
            raise ClientClosed("The client is closed.")

    def connected(self, deadline: float) -> Step[Connection]:
        """Return a connection that works, trying again and again until the deadline."""
        while self._is_connecting:
            yield from self._another_to_connect(deadline)
        self.check()
        if self.connection is not None and self.connection.failure is None:
            return self.connection
        self._is_connecting = True
        try:
            self.connection = yield from self._connect(deadline)
            return self.connection
        finally:
            self._is_connecting = False
            self.has_changed = True

    def authorized(self, path: str, deadline: float) -> Step[Connection]:
        """Return a connection on which the broker knows a token of ours for an entity."""
        connection = yield from self.connected(deadline)
        yield from self.renew_token(connection, path, deadline)
        return connection

    def persistently(
        self, path: str, deadline: float, act: Callable[[Connection], Step[T]]
    ) -> Step[T]:
        """Do something that may be repeated: when the connection is lost, again on another."""
        while True:
            connection = yield from self.connected(deadline)
            try:
                yield from self.renew_token(connection, path, deadline)
                return (yield from act(connection))
            except ClientError:
                # With the connection alive it was a refusal, and repeating would not help.
                if connection.failure is None:
                    raise

    def renew_token(self, connection: Connection, path: str, deadline: float) -> Step[None]:
        """Put a token for an entity, unless the broker knows one that is good for a while."""
        now = self._clock()
        if path in connection.tokens:
            renewed_at = connection.tokens[path]
            if renewed_at is None or now < renewed_at:
                return
        properties: dict[object, object] = {
            "operation": "put-token",
            "type": "servicebus.windows.net:sastoken",
            "name": self._credential.audience(path),
        }
        token = self._credential.token_for(path, now)
        yield from request(connection, connection.token_node, properties, token, deadline)
        is_renewable = self._credential.is_renewable
        connection.tokens[path] = now + TOKEN_RENEWED_AFTER if is_renewable else None

    def close(self, deadline: float) -> Step[None]:
        """Give back what was fetched ahead, say goodbye, and refuse everything from now on."""
        self._is_closed = True
        self.has_changed = True
        connection = self.connection
        if connection is None or connection.failure is not None:
            return
        try:
            # A broker that is gone, or too slow to say goodbye, has nothing more to say.
            with suppress(ClientError):
                yield from _say_goodbye(connection, deadline)
        finally:
            connection.lose("it was closed")
            self.has_changed = True

    def _connect(self, deadline: float) -> Step[Connection]:
        delay = RETRY_SECONDS_MIN
        while True:
            now = yield Flush()
            try:
                return (yield from self._attempt(min(deadline, now + CONNECT_SECONDS_MAX)))
            except ClientError as error:
                now = yield Flush()
                if not error.is_retryable or now + delay >= deadline:
                    raise
            yield from pause(now + delay)
            self.check()
            delay = min(2 * delay, RETRY_SECONDS_MAX)

    def _attempt(self, until: float) -> Step[Connection]:
        connection = Connection(self._endpoint, self._container_id)
        try:
            yield Connect(connection, until)
        except ssl.SSLCertVerificationError as error:
            raise NotTrusted(
                f"The certificate of {self._endpoint} cannot be trusted ({error.verify_message})."
            ) from error
        except OSError as error:
            raise ConnectionLost(
                f"Cannot connect to {self._endpoint}: {str(error) or type(error).__name__}.",
                is_retryable=not isinstance(error, _NO_USE_TRYING),
            ) from error
        yield from wait_for(
            lambda: connection.token_node.is_open, connection.check, until, "The broker's welcome"
        )
        return connection

    def _another_to_connect(self, deadline: float) -> Step[None]:
        now = yield Wait(deadline)
        if now >= deadline and self._is_connecting:
            raise ConnectionLost(f"Cannot connect to {self._endpoint} within the time allowed.")


def _say_goodbye(connection: Connection, deadline: float) -> Step[None]:
    ends = connection.receiving_ends()
    for end in ends:
        end.ask_no_more()
    yield from wait_for(
        lambda: all(end.is_quiet for end in ends), connection.check, deadline, "Taking credit back"
    )
    for end in ends:
        end.release()
    connection.close()
    yield from wait_for(lambda: connection.is_over, lambda: None, deadline, "The broker's goodbye")
