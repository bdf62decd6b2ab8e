"""What PostgreSQL's errors mean to those whose work they broke off."""

from typing import Final

import psycopg

from bendybus.model.errors import StartRefused
from bendybus.store.postgres.connecting import StoreUnreachable

# The first two letters of errors that say that the request was wrong, not the server: a value that
# cannot be, a constraint, a statement, a bound.
_OF_REQUEST: Final = frozenset({"0A", "21", "22", "23", "42", "54"})
# A right that is missing is one of "42", but the request's it is not.
_RIGHT_MISSING: Final = "42501"
_REPEATED: Final = frozenset({"40001", "40P01"})
_TURN_NOT_GIVEN: Final = "55P03"


class PostgresFailures:
    """How the lane tells errors apart."""

    every: Final[tuple[type[Exception], ...]] = (psycopg.Error, StoreUnreachable)

    def is_of_request(self, error: Exception) -> bool:
        """Say whether the request was wrong, not the server."""
        state = _state(error)
        return state[:2] in _OF_REQUEST and state != _RIGHT_MISSING

    def is_lasting(self, error: Exception) -> bool:
        """Say whether another try cannot mend it: somebody may mend it at the server any time."""
        del error
        return False

    def is_unwritten(self, error: Exception) -> bool:
        """Say whether a commit that failed so has surely left nothing behind.

        An ERROR in answer to COMMIT says that it was rolled back. Nothing else does: a session that
        ends in COMMIT may have written it, and may still do so.
        """
        return isinstance(error, psycopg.Error) and error.diag.severity_nonlocalized == "ERROR"

    def is_passing(self, error: Exception) -> bool:
        """Say whether others had the turn for all the time that we waited for it."""
        return _state(error) == _TURN_NOT_GIVEN

    def is_repeated(self, error: Exception) -> bool:
        """Say whether the same work, begun anew, may well succeed."""
        return _state(error) in _REPEATED

    def description(self, error: Exception) -> str:
        """Say what failed, with PostgreSQL's own code for it."""
        if isinstance(error, (StartRefused, StoreUnreachable)):
            return str(error)
        said = " ".join(str(error).split())
        return f"{said} ({_state(error) or type(error).__name__})"


def _state(error: Exception) -> str:
    return (isinstance(error, psycopg.Error) and error.sqlstate) or ""
