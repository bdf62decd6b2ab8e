"""A store in which packs are kept, or rows made at once, without a lane."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

from bendybus.columns.decoding import record_batch
from bendybus.model.ids import Instant
from bendybus.model.operations import (
    Answer,
    Append,
    Operation,
)
from bendybus.model.packed_messages import PackedMessages, PackedRows
from bendybus.model.staging import KeepChunk, PublishChunk
from bendybus.store.readers import Reservation
from bendybus.store.scan import Scan
from bendybus.store.sql import applying, catalog, staging
from bendybus.store.sql.careful_scan import scan_carefully
from bendybus.store.sql.readers import ALL, ReaderKey, find_reservations
from bendybus.store.sql.scanner import Suspicious
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.scan_connection import open_scan_connection
from bendybus.testing.store_contract.staging import publishing
from bendybus.testing.store_contract.subject import MAIN, ORDERS, ROOMY

SHOWN: Final = (
    *("sequence_number", "enqueued_time", "state", "message_id", "partition_key", "subject"),
    *("time_to_live", "expires_at", "delivery_count", "application_properties", "body"),
    "body_type",
)
READER, TOKEN = "reader", "token"
LIFE_MS: Final = 5_000


class Side:
    """One store."""

    def __init__(self, folder: Path, *, keeps_packs: bool) -> None:
        self.path = folder / f"{keeps_packs}.db"
        self._keeps_packs = keeps_packs
        self.database = self._opened()
        self.make(lambda database: catalog.put_entities(database, 0, [ORDERS]))

    def _opened(self) -> SqliteDatabase:
        database = open_database(self.path, Pacing())
        if not self._keeps_packs:
            database.keep_no_packs()
        return database

    def reopen(self) -> None:
        self.database.close()
        self.database = self._opened()

    def make(self, work: Callable[[SqliteDatabase], Any]) -> Any:
        self.database.begin(is_synced=False)
        try:
            answer = work(self.database)
        except BaseException:
            self.database.undo()
            raise
        self.database.commit()
        return answer

    def apply(self, *operations: Operation, now: Instant) -> list[Answer]:
        def work(database: SqliteDatabase) -> list[Answer]:
            return applying.make_all(database, operations, now)

        answers: list[Answer] = self.make(work)
        return answers

    def publish(self, number: int, rows: PackedRows, now: Instant, bytes_max: int) -> None:
        self.apply(KeepChunk(MAIN, number, 0, rows, ROOMY), now=now)
        [chunk] = staging.next_chunks(self.database, MAIN, [number], 1)
        life = rows.time_to_live_ms
        operations = publishing(chunk)
        for each in operations:
            # As the broker would say.
            expires_at = None if life is None else Instant(now + life)
            if isinstance(each, Append):
                assert isinstance(each.messages, PackedMessages)
                each.messages.expires_at = expires_at
                each.bytes_max = bytes_max
            elif isinstance(each, PublishChunk):
                each.expires_at, each.bytes_max = expires_at, bytes_max
        self.apply(*operations, now=now)

    def reservations(self, after: int) -> list[Reservation]:
        """Return what the reader has reserved behind a position."""
        key = ReaderKey(MAIN, READER, TOKEN)
        return find_reservations(self.database, key, after, ALL, ALL)

    def scan(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return all that scans find, as bulk readers see it."""
        found: list[dict[str, Any]] = []
        following: int | None = 0
        with closing(open_scan_connection(self.path, None)) as connection:
            while following is not None:
                request = Scan(
                    MAIN, following, 1 << 48, **{"count_max": 5, "bytes_max": ROOMY, **wanted}
                )
                try:
                    scanned = connection.scan(request)
                except Suspicious:
                    scanned = self.make(partial(scan_carefully, request=request))
                found += record_batch(scanned, SHOWN, is_partitioned=False).to_pylist()
                following = scanned.next_sequence
        return found
