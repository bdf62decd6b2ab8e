"""A connection of psycopg's that does not wait for ever.

A server that is paused acknowledges our packets and answers nothing. Whoever waits for it must find
out, because a standby may have taken its place.
"""

from time import monotonic
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

T = TypeVar("T")


class Unanswered(psycopg.OperationalError):
    """The server did not answer in time, and the session was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the server did not answer within {seconds:g} s")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """Waits so many seconds for whatever is asked; None: as long as it takes."""

    patience: float | None = None

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Wait for an answer, or end the session."""
        bound = self.patience if timeout is None else timeout
        begun = monotonic()
        try:
            return super().wait(gen, interval, bound)
        except psycopg.OperationalError:
            if bound is None or monotonic() - begun < bound:
                raise
            # Not cancelled: a commit must not be.
            self.pgconn.finish()
            raise Unanswered(bound) from None
