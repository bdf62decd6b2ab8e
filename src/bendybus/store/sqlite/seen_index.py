"""The ids that duplicate detection looks up: a table of SQLite's own temporary database.

The log in the store's file is written in order and read when the store opens; what is looked up
is this. It is part of every transaction, so what undoes the one undoes the other. In the file it
would cost a changed page for every message, because digests come in no order. What does not fit
into the cache goes to a temporary file, which nobody ever waits for.
"""

from typing import Final

import apsw

from bendybus.store.sqlite.statements import STATEMENTS

DIGEST_SIZE: Final = 16
# Room for about a million ids, of all queues of the store. Taken as there are ids.
CACHE_KIBIBYTES: Final = 32 * 1024


def open_index(connection: apsw.Connection) -> None:
    """Make the table, and fill it from the log."""
    connection.execute(
        "CREATE TEMP TABLE seen_index (queue INTEGER NOT NULL, digest BLOB NOT NULL,"
        " seen_at INTEGER NOT NULL, PRIMARY KEY (queue, digest)) WITHOUT ROWID"
    )
    connection.execute(f"PRAGMA temp.cache_size=-{CACHE_KIBIBYTES}")
    # While it is filled, nothing needs to be undone: if that fails, all of it goes.
    connection.execute("PRAGMA temp.journal_mode=OFF")
    with connection:
        for queue, seen_at, digests in connection.execute(STATEMENTS["logged_ids"]):
            array = apsw.carray(split(digests))
            connection.execute(STATEMENTS["index_seen"], (queue, array, seen_at, seen_at))
    connection.execute("PRAGMA temp.journal_mode=MEMORY")


def split(digests: bytes) -> tuple[bytes, ...]:
    """Take apart what was joined."""
    return tuple([digests[at : at + DIGEST_SIZE] for at in range(0, len(digests), DIGEST_SIZE)])
