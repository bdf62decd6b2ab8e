"""Parts of a scan, for `bench/parts`: from the file of a store to a record batch."""

import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import apsw
import numpy as np
import pyarrow as pa

from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.amqp.values import Int, Symbol
from bendybus.columns.decoding import record_batch
from bendybus.columns.one_by_one import PlainColumns, read_content
from bendybus.content.incoming_message import read_message
from bendybus.model.entity import Queue
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, StoreNumber
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.store.checksum import CHECKSUM_SIZE, is_intact, sealed
from bendybus.store.checksums import are_intact
from bendybus.store.port import EntityRecord, FragmentPlace
from bendybus.store.scan import Scan
from bendybus.store.sql import applying, catalog
from bendybus.store.sqlite.database import Pacing, open_database
from bendybus.store.sqlite.scan_connection import SqliteScanConnection

MESSAGES: Final = 16_000
_TOGETHER: Final = 1_000
_BODY: Final = b"x" * 200
_QUEUE: Final = QueueNumber(1)
_NOON: Final = 1_800_000_000_000
_EVERYTHING: Final = Scan(_QUEUE, 0, 1 << 62, MESSAGES, 1 << 30)
_TUPLES: Final = """
    SELECT m.id, m.enqueued_at, m.state, m.delivery_count, m.expires_at, m.session_id,
           m.partition_key, m.marks, b.content
      FROM message m JOIN body b ON b.id = m.body WHERE m.queue = ?"""


def as_tuples() -> float:
    """A tuple per message, each content read by itself."""
    return _timed(lambda: _plain_batch(_connection().execute(_TUPLES, (_QUEUE,)).fetchall()))


def as_columns() -> float:
    """A buffer per column, all contents read side by side."""
    scans = SqliteScanConnection(_connection())
    return _timed(lambda: record_batch(scans.scan(_EVERYTHING), is_partitioned=False))


def checked_one_by_one() -> float:
    """A checksum for each content."""
    contents, seeds = _sealed()
    return _timed(lambda: all(map(is_intact, contents, seeds.tolist())))


def checked_in_a_chain() -> float:
    """One checksum for all contents."""
    contents, seeds = _sealed()
    joined = b"".join(contents)
    starts = np.cumsum([0, *(len(content) for content in contents[:-1])])
    return _timed(lambda: are_intact(joined, starts, seeds))


def read_one_by_one() -> float:
    """Each content by itself, without making columns of it."""
    contents = _contents()
    return _timed(lambda: [read_content(content, None) for content in contents])


def read_side_by_side() -> float:
    """All contents together, up to the record batch."""
    scanned = SqliteScanConnection(_connection()).scan(_EVERYTHING)
    return _timed(lambda: record_batch(scanned, is_partitioned=False))


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) / MESSAGES * 1e6


def _plain_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Make columns of rows as anybody would begin with."""
    plain = [read_content(row[-1][:-CHECKSUM_SIZE], None) for row in rows]
    columns: list[Any] = [pa.array([row[at] for row in rows]) for at in range(7)]
    columns += [pa.array([each.texts.get(name) for each in plain]) for name in ("message_id", "to")]
    columns += [pa.array([_user(each) for each in plain]), pa.array([each.body for each in plain])]
    return pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))])


def _user(plain: PlainColumns) -> list[tuple[str, str | None]]:
    return [(name, text) for name, (_, text) in plain.properties.items()]


@cache
def _contents() -> list[bytes]:
    return [_message(number).content for number in range(MESSAGES)]


def _message(number: int) -> Message:
    properties: list[object] = [
        f"message-{number}",
        None,
        None,
        "order",
        None,
        None,
        Symbol("text/plain"),
    ]
    user = {"colour": "red", "size": Int(number)}
    return read_message(
        encode_properties(properties)
        + encode_section(SectionCode.APPLICATION_PROPERTIES, user)
        + encode_section(SectionCode.DATA, _BODY)
    )


@cache
def _sealed() -> tuple[tuple[bytes, ...], np.ndarray[Any, np.dtype[np.uint32]]]:
    seeds = np.arange(MESSAGES, dtype=np.uint32)
    return sealed(_contents(), seeds.tolist()), seeds


@cache
def _connection() -> apsw.Connection:
    """Open a store that holds so many messages."""
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "store.db"
    database = open_database(path, Pacing())
    places = (FragmentPlace(StoreNumber(0), _QUEUE),)
    record = EntityRecord(EntityNumber(1), Queue("parts"), 1, places)
    catalog.put_entities(database, 0, [record])
    for first in range(0, MESSAGES, _TOGETHER):
        messages = [_message(number) for number in range(first, first + _TOGETHER)]
        append = Append(_QUEUE, messages, 1 << 40)
        database.begin(is_synced=False)
        applying.make(database, append, Instant(_NOON + first))
        database.execute("COMMIT")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    database.close()
    # The folder is there as long as the connection.
    _connection.__dict__["folder"] = folder
    return connection
