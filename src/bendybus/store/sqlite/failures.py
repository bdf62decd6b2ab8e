"""What SQLite's errors mean."""

from typing import Final

import apsw

from bendybus.model.errors import StartRefused
from bendybus.store.sql.failures import Elsewhere

# Errors that say the request was wrong, not the disk.
_OF_REQUEST: Final = (
    apsw.SQLError,
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.RangeError,
    apsw.TooBigError,
)
_LASTING: Final = (apsw.CorruptError, apsw.NotADBError, StartRefused)


class SqliteFailures:
    """See `bendybus.store.sql.failures`."""

    every: Final[tuple[type[Exception], ...]] = (apsw.Error, Elsewhere)

    def is_of_request(self, error: Exception) -> bool:
        """Say whether the request was wrong."""
        return isinstance(error, _OF_REQUEST)

    def is_lasting(self, error: Exception) -> bool:
        """Say whether another try cannot mend it: a file that is damaged, or not ours."""
        return isinstance(error, _LASTING)

    def is_unwritten(self, error: Exception) -> bool:
        """Say whether nothing was written: these are found before the commit is."""
        return isinstance(error, (apsw.FullError, apsw.BusyError, *_OF_REQUEST))

    def is_passing(self, error: Exception) -> bool:
        """Say whether another program has the file just now, or the store has left it."""
        return isinstance(error, (apsw.BusyError, Elsewhere))

    def is_repeated(self, error: Exception) -> bool:
        """Say whether it is worth another try at once: whoever has the file had time to end."""
        del error
        return False

    def description(self, error: Exception) -> str:
        """Say what failed, with SQLite's own name, which tells a full disk from a broken one."""
        if isinstance(error, (StartRefused, Elsewhere)):
            return str(error)
        code = getattr(error, "extendedresult", 0)
        names = apsw.mapping_result_codes | apsw.mapping_extended_result_codes
        return f"{error} ({names[code] if code else type(error).__name__})"
