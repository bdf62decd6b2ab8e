"""Bounds on requests per second: of a namespace, and of each connection. Off unless they are set.

A request is a message that is sent, an operation of `$management`, a link that is attached, or
anything asked over HTTP. What is received is not counted: credit and locks bound it. A second's
worth may come at once after a rest. What is too much is refused at once and costs nobody else
anything.
"""

from dataclasses import dataclass
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.model.errors import Throttled
from bendybus.model.token_bucket import TokenBucket

# HTTP connections that are remembered; those of AMQP bring their own.
CONNECTIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Rates:
    """How many requests a second are let through; None for any number."""

    namespace: int | None = None
    connection: int | None = None


class RateLimits:
    """The bounds of one namespace."""

    def __init__(self, rates: Rates, clock: Clock) -> None:
        self._rates = rates
        self._clock = clock
        self._namespace = _bucket(rates.namespace)
        self._connections: dict[object, ConnectionRate] = {}

    def new_connection(self) -> "ConnectionRate | None":
        """Return the bound of a connection; None if there is none at all."""
        own = _bucket(self._rates.connection)
        buckets = tuple(bucket for bucket in (own, self._namespace) if bucket is not None)
        return ConnectionRate(buckets, self._clock) if buckets else None

    def check(self, connection: object) -> None:
        """Let one request of a connection through. Raises `Throttled`."""
        rate = self._connections.pop(connection, None) or self.new_connection()
        if rate is None:
            return
        if len(self._connections) >= CONNECTIONS_MAX:
            del self._connections[next(iter(self._connections))]
        # The one that was used last is the last to be forgotten.
        self._connections[connection] = rate
        rate.check(1)


class ConnectionRate:
    """What one connection may do: its own bound first, so that its excess is not others' loss."""

    __slots__ = ("_buckets", "_clock")

    def __init__(self, buckets: tuple[TokenBucket, ...], clock: Clock) -> None:
        self._buckets = buckets
        self._clock = clock

    def check(self, count: int) -> None:
        """Let so many requests through together, or none of them. Raises `Throttled`."""
        now = self._clock.now()
        for bucket in self._buckets:
            seconds = bucket.take(count, now)
            if seconds > 0:
                raise Throttled.for_seconds(seconds)


def _bucket(per_second: int | None) -> TokenBucket | None:
    return None if per_second is None else TokenBucket(per_second, per_second)
