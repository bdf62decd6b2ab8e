"""What is moved: every table of a store, by its key, and how much of it at once.

Both engines have these tables with these columns. What is not here is of a place, not of a store:
whose it is, how often its catalog changed. Ids of duplicate detection are kept in two ways, and are
seen to by the source.
"""

from typing import Any, Final, NamedTuple

Key = tuple[Any, ...]
Row = tuple[Any, ...]


class MovedTable(NamedTuple):
    """A table. The key's columns come first; so they do in every row that is read of it."""

    name: str
    key: tuple[str, ...]
    others: tuple[str, ...]
    # How many rows are read at once; few where they may be long.
    rows_together: int = 1000

    @property
    def notes_together(self) -> int:
        """How many rows that changed are taken at once."""
        return max(self.rows_together, 10)

    @property
    def little(self) -> int:
        """How many rows may be left to take when the store stands still for them."""
        return 5 * self.notes_together

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order in which they are read and written."""
        return (*self.key, *self.others)

    def key_of(self, row: Row) -> Key:
        """Return the key of a row."""
        return row[: len(self.key)]


def _table(name: str, key: str, others: str, rows_together: int = 1000) -> MovedTable:
    return MovedTable(name, tuple(key.split()), tuple(others.split()), rows_together)


# Contents never change, and an id of one is never given again.
BODY: Final = _table("body", "id", "content")

TABLES: Final = (
    _table(
        "entity",
        "number",
        "topic version is_removed created_at updated_at namespace name kind properties"
        " declared_rules places",
        100,
    ),
    _table("prepared", "number", "entity", 100),
    _table("access", "namespace", "version rules", 10),
    _table(
        "queue",
        "number",
        "entity fragment sub_queue next_counter message_count scheduled_count deferred_count"
        " message_bytes",
    ),
    BODY,
    _table(
        "message",
        "id",
        "queue state delivery_count enqueued_at body size expires_at locked_until nonce by_session"
        " session_id partition_key marks",
    ),
    _table("shared_body", "body", "holders"),
    _table("run", "first", "length body enqueued_at expires_at checksum is_damaged"),
    _table(
        "session",
        "queue session_id",
        "waiting_since is_ready locked_until nonce state_set_at state",
        50,
    ),
    _table("delivered", "nonce", "until freed_until"),
    _table("litter", "id", "bodies", 20),
    _table("transfer", "source sequence", "made_at"),
    _table("staged", "id", "queue stage ordinal messages size checksum fields sizes contents", 2),
    _table("stage", "number", "queue batch opened_at state messages writer fragments"),
    _table("writer", "queue name", "published batch used_at"),
    _table("reader", "queue name", "position committed opened_at active_at token"),
    _table("reservation", "number", "queue position messages bytes made_at reader"),
    _table("use", "entity", "used_at"),
)
# As PostgreSQL keeps them; SQLite's rows are taken apart.
SEEN: Final = _table("seen_id", "queue digest", "seen_at")
# Whose numbers are never given again, also those of rows that are gone.
NUMBERED: Final = ("entity", "queue", "staged", "reservation", "litter")
