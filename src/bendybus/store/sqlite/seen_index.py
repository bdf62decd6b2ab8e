"""The ids that duplicate detection looks up: a table of SQLite's own temporary database.

The log in the store's file is written in order and read when the store opens; what is looked up
is this. It is part of every transaction, so what undoes the one undoes the other. In the file it
would cost a changed page for every message, because digests come in no order. What does not fit
into the cache goes to a temporary file, which nobody ever waits for.
"""

from collections.abc import Iterator
from typing import Final

import apsw

DIGEST_SIZE: Final = 16
# Room for about a million ids. Memory is taken as there are ids.
CACHE_KIBIBYTES: Final = 48 * 1024


def open_index(connection: apsw.Connection) -> None:
    """Make the table, and fill it from the log."""
    connection.execute(
        "CREATE TEMP TABLE seen_index (queue INTEGER NOT NULL, digest BLOB NOT NULL,"
        " seen_at INTEGER NOT NULL, PRIMARY KEY (queue, digest)) WITHOUT ROWID"
    )
    connection.execute("PRAGMA temp.journal_mode=MEMORY")
    connection.execute(f"PRAGMA temp.cache_size=-{CACHE_KIBIBYTES}")
    with connection:
        connection.executemany(
            "INSERT OR REPLACE INTO seen_index (queue, digest, seen_at) VALUES (?, ?, ?)",
            _logged(connection),
        )


def _logged(connection: apsw.Connection) -> Iterator[tuple[int, bytes, int]]:
    rows = connection.execute("SELECT queue, seen_at, digests FROM seen ORDER BY id")
    for queue, seen_at, digests in rows:
        for digest in split(digests):
            yield queue, digest, seen_at


def split(digests: bytes) -> tuple[bytes, ...]:
    """Take apart what was joined."""
    return tuple([digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)])
