"""Bytes of the file that change by themselves, anywhere."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import apsw
import pytest

from bendybus.model.errors import BusError, DataFolderUnusable
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.operations import Append, Move, OpenReader, Reserve, Rewrite
from bendybus.store.port import Acquire
from bendybus.store.scan import Scan
from bendybus.store.sql import applying, catalog, readers, reading
from bendybus.store.sql.database import COUNTER_BITS_HERE
from bendybus.store.sql.scanner import Suspicious
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.store.sqlite.scan_connection import SqliteScanConnection
from bendybus.testing.store_contract.reserving import NAME, TOKEN
from bendybus.testing.store_contract.scanning import rows
from bendybus.testing.store_contract.subject import DEAD, LOCK_MS, MAIN, NOON, ORDERS, ROOMY

COUNT = 60
MOVED = 8
RESERVED = 15
UNTIL = Instant(NOON + LOCK_MS)


@dataclass(frozen=True, slots=True)
class Specimen:
    """A store's file, and the messages in it by their content."""

    image: bytes
    messages: dict[bytes, StoredMessage]


@pytest.fixture
def specimen(tmp_path: Path) -> Specimen:
    """Make a file with small and large messages, some with fields, dead-lettered, reserved."""
    path = tmp_path / "specimen.db"
    database = open_database(path, Pacing())
    catalog.put_entities(database, 0, [ORDERS])
    applying.make(database, Append(MAIN, [_message(n) for n in range(COUNT)], ROOMY), NOON)
    wish = Acquire(MAIN, MOVED, ROOMY, UNTIL, 1)
    for message in reading.acquire(database, wish, NOON):
        marks = Marks(f"reason {message.sequence}", property_changes=b"\x01\x02")
        applying.make(database, Rewrite(MAIN, message.lock, marks), NOON)
        move = Move(MAIN, DEAD, message.lock, marks, is_counted=True)
        applying.make(database, move, NOON)
    applying.make(database, OpenReader(MAIN, NAME, TOKEN, NOON, NOON, 1), NOON)
    applying.make(database, Reserve(MAIN, NAME, TOKEN, 0, RESERVED, ROOMY), NOON)
    both = (reading.browse(database, queue, 0, (COUNT, ROOMY)) for queue in (MAIN, DEAD))
    messages = {message.content: message for found in both for message in found}
    database.close()
    assert len(messages) == COUNT
    return Specimen(path.read_bytes(), messages)


def _message(number: int) -> Message:
    content = Random(number).randbytes((20, 150, 700, 6000)[number % 4])
    if number % 3 == 0:
        return Message(content)
    return Message(content, session_id=f"session {number}", partition_key="née")


def _scanned(database: SqliteDatabase) -> Iterator[StoredMessage]:
    """Read as columns, as far as that finds nothing wrong."""
    for queue in (MAIN, DEAD):
        wish = Scan(queue, 0, (1 << 63) - 1, COUNT, ROOMY)
        try:
            piece = SqliteScanConnection(database.connection).scan(wish)
        except Suspicious:
            continue
        for number, enqueued_at, count, state, expires_at, session_id, key, marks, content in rows(
            piece
        ):
            yield StoredMessage(
                number,
                enqueued_at,
                count,
                content,
                expires_at,
                session_id,
                key,
                marks,
                state,
                None,
                None,
            )


def _read(database: SqliteDatabase) -> Iterator[StoredMessage]:
    """Read by scanning, browsing, acquiring and as a reader, so that all are tried."""
    everything = COUNT, ROOMY
    yield from _scanned(database)
    browsed = [*reading.browse(database, MAIN, 0, everything)]
    acquired = reading.acquire(database, Acquire(MAIN, COUNT, ROOMY, UNTIL, 2), NOON)
    assert {message.content for message in acquired} <= {message.content for message in browsed}
    yield from acquired
    key = QueueNumber(MAIN), NAME, TOKEN
    for each in readers.reservations(database, key, 0, 1, NOON):
        yield from reading.read_reserved(database, MAIN, each.number, 0, everything)
    yield from reading.browse(database, DEAD, 0, everything)


def read_spoiled(
    specimen: Specimen, places: list[int], bits: int, path: Path
) -> list[StoredMessage] | None:
    """Change bytes and read all; None if the store says that it failed."""
    image = bytearray(specimen.image)
    for at in places:
        image[at] ^= bits
    path.write_bytes(image)
    for left_over in path.parent.glob(f"{path.name}-*"):
        left_over.unlink()
    try:
        database = open_database(path, Pacing())
    except (apsw.Error, DataFolderUnusable):
        return None
    try:
        return [*_read(database)]
    except (apsw.Error, BusError):
        return None
    finally:
        database.abandon()


def check(specimen: Specimen, found: list[StoredMessage]) -> None:
    """Every message found must be one that was sent, as it was sent."""
    for message in found:
        original = specimen.messages.get(message.content)
        assert original is not None, "a changed content was handed out"
        assert sealed_part(message) == sealed_part(original)


def sealed_part(message: StoredMessage) -> tuple[object, ...]:
    """Return what must never change unnoticed. Locks, counts and times are not among it."""
    return message.session_id, message.partition_key, message.enqueued_at, message.marks


def check_flips(specimen: Specimen, random: Random, count: int, folder: Path) -> None:
    survived = 0
    for _ in range(count):
        at, bits = random.randrange(len(specimen.image)), random.randrange(1, 256)
        found = read_spoiled(specimen, [at], bits, folder / "spoiled.db")
        if found is not None:
            survived += 1
            check(specimen, found)
    assert survived > count / 3, "most of a file is content, and content must not stop a store"


def test_a_changed_byte_of_a_content_costs_that_message_alone(
    specimen: Specimen, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    for content, original in specimen.messages.items():
        # Pages that were split keep old copies beside the one that counts.
        places = [
            match.start() + 10 for match in re.finditer(re.escape(content[:20]), specimen.image)
        ]
        found = read_spoiled(specimen, places, 0x40, tmp_path / "spoiled.db")
        assert found is not None
        missing = set(specimen.messages) - {message.content for message in found}
        assert missing == {content}, f"of message {original.sequence}"
        check(specimen, found)


def test_a_changed_byte_anywhere_is_never_handed_out_as_good(
    specimen: Specimen, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    check_flips(specimen, Random(1), 300, tmp_path)


def test_a_row_that_no_longer_says_what_it_is_does_not_stop_the_others(
    specimen: Specimen, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    path = tmp_path / "spoiled.db"
    path.write_bytes(specimen.image)
    row = 1 << COUNTER_BITS_HERE | COUNT
    with without_the_index(path) as connection:
        connection.execute("UPDATE message SET state = 'x', size = 'y' WHERE id = ?", (row,))
    database = open_database(path, Pacing())
    found = {message.content for message in _read(database)}
    database.close()
    [lost] = set(specimen.messages) - found
    assert specimen.messages[lost].sequence == COUNT


@contextmanager
def without_the_index(path: Path) -> Iterator[apsw.Connection]:
    """Let a connection change rows behind the back of the index of free messages."""
    before, after = "WHERE state = 0 AND locked_until IS NULL", "WHERE state = 77"
    for here, there in ((before, after), (after, before)):
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 'message_free'",
            (here, there),
        )
        connection.close()
        if there is after:
            connection = apsw.Connection(str(path))
            yield connection
            connection.close()


@pytest.mark.prove
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(8))
def test_a_changed_byte_anywhere_is_never_handed_out_as_good_whatever_byte(
    specimen: Specimen, tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    caplog.set_level(logging.CRITICAL)
    check_flips(specimen, Random(seed), 1500, tmp_path)
