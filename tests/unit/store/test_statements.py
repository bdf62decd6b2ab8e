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
# A commit that is one statement; a server is sent all of one at once anyway.
APPENDED_WHOLE = {"append_whole", "find_room"}

# Packs, which are made only where one process has the file for itself.
PACKS = {
    "any_packs",
    "are_free_before",
    "expired_packs",
    "forget_chunks",
    "forget_packs",
    "has_packs",
    "keep_pack",
    "next_chunks",
    "oldest_packs",
    "packs_around",
    "packs_from",
    "packs_of",
    "publish_chunk",
    "published_chunk",
    "queues_with_packs",
    "reserve_pack",
    "reserve_stretch",
    "reserved_packs",
    "scan_chunk",
    "scan_packs",
    "scan_reserved_pack",
    "set_aside_pack",
    "shorten_pack",
    "staged_chunk",
}


def test_every_engine_has_every_statement_by_the_same_name() -> None:
    assert SQLITE.keys() - POSTGRES.keys() == (
        SEEN_IN_A_FILE | SHARING_A_FILE | APPENDED_WHOLE | PACKS
    )
    assert POSTGRES.keys() - SQLITE.keys() == SEEN_IN_A_TABLE
