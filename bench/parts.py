"""`bench/parts`: what single parts cost, for the decisions that rest on it.

Each line compares two ways of doing the same thing, in turns within one run; the ratio is what
counts. Seconds differ from machine to machine.
"""

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import apsw

from bench import scan_parts
from bendybus.amqp.sections import SectionCode, encode_properties, encode_section
from bendybus.content import incoming_message

ROUNDS: Final = 5
MESSAGES: Final = 2_000
BATCH: Final = 200
BATCHES: Final = 20
BODY: Final = os.urandom(250)
SWITCH_DEFAULT: Final = 0.005
SWITCH_SHORT: Final = 0.0005


def main() -> None:
    """Measure and print."""
    for name, ways in PARTS.items():
        print(name)
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, measure in ways.items():
                times[way].append(measure())
        least = min(median(values) for values in times.values())
        for way, values in times.items():
            cost = median(values)
            print(f"  {way:40}{cost:10.2f} µs per message {cost / least:8.1f} x")


def per_message(work: Callable[[], object], count: int) -> float:
    """Run once and return the microseconds of one message."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) / count * 1e6


def read_plain() -> float:
    """A message of the plainest shape, by offset."""
    payload = _payload()
    return per_message(
        lambda: [incoming_message.read_message(payload) for _ in range(MESSAGES)], MESSAGES
    )


def read_with_care() -> float:
    """The same message, section by section."""
    payload = _payload()
    careful = incoming_message._read_message  # noqa: SLF001 - the way that the plain one avoids
    return per_message(lambda: [careful(payload) for _ in range(MESSAGES)], MESSAGES)


def _payload() -> bytes:
    return encode_properties(["message-id"]) + encode_section(SectionCode.DATA, BODY)


def rows_one_by_one(switch_seconds: float, *, is_busy: bool) -> float:
    """Insert a batch with a step per row."""
    with _table() as connection, _beside_a_loop(switch_seconds, is_busy=is_busy):
        rows = [(BODY,)] * BATCH
        return _committed(
            connection, lambda: connection.executemany("INSERT INTO body(content) VALUES (?)", rows)
        )


def rows_together(switch_seconds: float, *, is_busy: bool) -> float:
    """Insert a batch in one step."""
    with _table() as connection, _beside_a_loop(switch_seconds, is_busy=is_busy):
        bodies = apsw.carray((BODY,) * BATCH)
        statement = "INSERT INTO body(content) SELECT value FROM carray(?)"
        return _committed(connection, lambda: connection.execute(statement, (bodies,)))


def _committed(connection: apsw.Connection, insert: Callable[[], object]) -> float:
    def work() -> None:
        for _ in range(BATCHES):
            connection.execute("BEGIN IMMEDIATE")
            insert()
            connection.execute("COMMIT")

    return per_message(work, BATCH * BATCHES)


@contextmanager
def _table() -> Iterator[apsw.Connection]:
    with tempfile.TemporaryDirectory() as folder:
        connection = apsw.Connection(str(Path(folder) / "parts.db"))
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("CREATE TABLE body (id INTEGER PRIMARY KEY, content BLOB)")
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _beside_a_loop(switch_seconds: float, *, is_busy: bool) -> Iterator[None]:
    """Keep an event loop busy with Python in another thread, as the front end is under load."""
    is_over = threading.Event()

    async def spin() -> None:
        while is_busy and not is_over.is_set():
            sum(range(200))
            await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: asyncio.run(spin()))
    sys.setswitchinterval(switch_seconds)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(SWITCH_DEFAULT)


PARTS: Final[dict[str, dict[str, Callable[[], float]]]] = {
    "reading a message of the plainest shape": {
        "by offset": read_plain,
        "section by section": read_with_care,
    },
    f"storing batches of {BATCH}": {
        "a step per row, busy beside, 5 ms": lambda: rows_one_by_one(SWITCH_DEFAULT, is_busy=True),
        "a step per row, busy beside, 0.5 ms": lambda: rows_one_by_one(SWITCH_SHORT, is_busy=True),
        "one step, busy beside, 0.5 ms": lambda: rows_together(SWITCH_SHORT, is_busy=True),
        "one step, nothing beside": lambda: rows_together(SWITCH_SHORT, is_busy=False),
    },
    f"{scan_parts.MESSAGES} messages from a store to a record batch": {
        "a tuple per message": scan_parts.as_tuples,
        "a buffer per column": scan_parts.as_columns,
    },
    "checking their checksums": {
        "one by one": scan_parts.checked_one_by_one,
        "in a chain": scan_parts.checked_in_a_chain,
    },
    "reading their contents": {
        "one by one": scan_parts.read_one_by_one,
        "side by side": scan_parts.read_side_by_side,
    },
}

if __name__ == "__main__":
    main()
