"""Engines have the same statements, but for what only one of them needs."""

from bendybus.store.postgres.statements import STATEMENTS as POSTGRES
from bendybus.store.sqlite.statements import STATEMENTS as SQLITE

# Ids of duplicate detection: a log in the file that is read into memory, or rows of a table.
SEEN_IN_A_FILE = {
    "log_seen",
    "log_seen_as",
    "logged_from",
    "logged_ids",
    "oldest_seen",
    "unlog_seen",
}
SEEN_IN_A_TABLE = {"note_seen", "forget_seen"}
# What a process asks that shares a file; a server says it by itself, or with the first flight.
SHARING_A_FILE = {"raise_generation", "what_others_did"}


def test_every_engine_has_every_statement_by_the_same_name() -> None:
    assert SQLITE.keys() - POSTGRES.keys() == SEEN_IN_A_FILE | SHARING_A_FILE
    assert POSTGRES.keys() - SQLITE.keys() == SEEN_IN_A_TABLE
