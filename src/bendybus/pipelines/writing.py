"""Rows as messages: which columns are sent."""

from difflib import get_close_matches

from pyspark.sql import DataFrame

from bendybus.columns.schema import COLUMNS, WRITABLE
from bendybus.pipelines.failure import PipelineFailed


def messages_of(rows: DataFrame) -> DataFrame:
    """Return the columns of which messages are made.

    Those that only the broker gives are left out. Raises `PipelineFailed` for any other: it would
    be lost without a word.
    """
    for name in rows.columns:
        if name not in COLUMNS:
            close = get_close_matches(name, WRITABLE, 1)
            hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(WRITABLE)}"
            raise PipelineFailed(f"a message has no {name!r}; {hint}")
    wanted = [name for name in WRITABLE if name in rows.columns]
    if not wanted:
        raise PipelineFailed(f"no column is part of a message; give some of {', '.join(WRITABLE)}")
    return rows.select(*wanted)
