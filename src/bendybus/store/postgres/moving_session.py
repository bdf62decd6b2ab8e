"""The session of whoever moves a store from or to a database."""

from collections.abc import Mapping, Sequence
from time import monotonic, sleep
from typing import Any, Final

import psycopg

from bendybus.store.moving.moving import MoveFailed
from bendybus.store.postgres.column_types import column_types
from bendybus.store.postgres.connecting import connect, shown
from bendybus.store.postgres.locks import TRY_MOVE

# Longer than the server works on what is asked for here, which may be much.
_PATIENCE_SECONDS: Final = 90
_PATIENCE_FOR_ENDED_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.05


class MovingSession:
    """Moves a store from or to a database, as the only one who does. Used by one thread."""

    def __init__(self, url: str, *, purpose: str, settings: Mapping[str, str]) -> None:
        self._shown = shown(url)
        self._connection = connect(
            url, purpose=purpose, settings=settings, patience=_PATIENCE_SECONDS
        )
        try:
            self._take_move()
            self._make_ready()
            self._types = column_types(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """End the session, and with it what it holds."""
        self._connection.close()

    def _take_move(self) -> None:
        """Be the only one that moves a store to or from the database, while the session lives.

        A server may need a moment to notice that a session has ended that was broken off.
        """
        patient_until = monotonic() + _PATIENCE_FOR_ENDED_SECONDS
        while self._run(TRY_MOVE).fetchall() != [(True,)]:
            if monotonic() > patient_until:
                raise MoveFailed(f"somebody else moves a store to or from {self._shown} just now")
            sleep(_AGAIN_SECONDS)

    def _make_ready(self) -> None:
        """See to the database before anything is read of its tables."""

    def _run(self, text: str, values: Sequence[Any] = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._connection.execute(text.encode(), values or None)
