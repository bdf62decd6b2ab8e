"""What callers of a store were told, and whether a database agrees with it.

Every message has a content of its own. For each the ledger keeps at which moments its append and
its removal were asked for and answered. Moments are places in a disk's history, so that the same
ledger judges the live store and what any power cut would have left.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import COUNTER_MASK, QueueNumber
from bendybus.model.message import StoredMessage
from bendybus.store.sql import reading
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.testing.store_contract.subject import DEAD, MAIN, ROOMY

NEVER = math.inf


@dataclass(slots=True)
class Entry:
    """One append of some messages, or the removal of one."""

    contents: tuple[bytes, ...]
    asked: float
    answered: float = NEVER
    is_refused: bool = False

    @property
    def content(self) -> bytes:
        """The content of the only message."""
        [content] = self.contents
        return content


@dataclass(slots=True)
class Ledger:
    """All appends and removals."""

    now: Callable[[], int]
    appends: list[Entry] = field(default_factory=list)
    removals: list[Entry] = field(default_factory=list)

    def append(self, contents: Sequence[bytes]) -> Entry:
        """Note that an append is about to be asked for."""
        return self._note(self.appends, contents)

    def removal(self, content: bytes) -> Entry:
        """Note that a removal is about to be asked for."""
        return self._note(self.removals, [content])

    def answer(self, entry: Entry) -> None:
        """Note that the caller was told it is done."""
        entry.answered = self.now()

    def refuse(self, entry: Entry) -> None:
        """Note that the caller was told nothing was written."""
        entry.is_refused = True

    def _note(self, entries: list[Entry], contents: Sequence[bytes]) -> Entry:
        entry = Entry(tuple(contents), self.now())
        entries.append(entry)
        return entry

    def violations(self, present: Sequence[bytes], moment: int | None = None) -> list[str]:
        """Hold what is present against what callers had been told by that moment, or by now."""
        if moment is None:
            moment = self.now() + 1
        counted = Counter(present)
        removals: dict[bytes, list[Entry]] = {}
        for entry in self.removals:
            if not entry.is_refused and entry.asked < moment:
                removals.setdefault(entry.content, []).append(entry)
        found = [f"{_short(content)} is there twice" for content in counted if counted[content] > 1]
        known = {content for entry in self.appends for content in entry.contents}
        found += [
            f"{_short(content)} was never sent" for content in counted if content not in known
        ]
        for append in self.appends:
            found += _violations_of(append, removals, counted, moment)
        return found


def _violations_of(
    append: Entry, removals: dict[bytes, list[Entry]], counted: Counter[bytes], moment: float
) -> list[str]:
    found: list[str] = []
    untouched: set[bool] = set()
    for content in append.contents:
        removed = removals.get(content, [])
        is_present = counted[content] > 0
        if is_present and any(removal.answered <= moment for removal in removed):
            found.append(f"{_short(content)} was removed and came back")
        if not removed:
            untouched.add(is_present)
            if append.answered <= moment and not is_present:
                found.append(f"{_short(content)} was acknowledged and is lost")
            if append.is_refused and is_present:
                found.append(f"{_short(content)} was refused and is there")
    if len(untouched) > 1:
        found.append(f"of one call only some are there: {[*map(_short, append.contents)]}")
    return found


def _short(content: bytes) -> str:
    return repr(content[:12])


def inspect(path: Path) -> tuple[list[bytes], list[str]]:
    """Open a file as a store does at its start; return its contents and what is wrong with it."""
    try:
        database = open_database(path, Pacing())
    except apsw.Error as error:
        return [], [f"it cannot be opened: {error}"]
    try:
        messages = {queue: _all(database, queue) for queue in (MAIN, DEAD)}
        found = _inconsistencies(database, messages)
    except EntityNotFound:
        return [], ["the catalog is lost"]
    finally:
        database.close()
    return [message.content for queue in messages.values() for message in queue], found


def _all(database: SqliteDatabase, queue: QueueNumber) -> list[StoredMessage]:
    return reading.browse(database, queue, 0, (100_000, ROOMY))


def _inconsistencies(
    database: SqliteDatabase, messages: dict[QueueNumber, list[StoredMessage]]
) -> list[str]:
    found: list[str] = []
    connection: Any = database.connection
    [(verdict,)] = connection.execute("PRAGMA integrity_check(1)")
    if verdict != "ok":
        found.append(verdict)
    queues = connection.execute("SELECT number, message_count, next_counter FROM queue")
    for number, count, next_counter in queues:
        held = messages.get(number, [])
        if count != len(held):
            found.append(f"queue {number} counts {count} and has {len(held)}")
        if held and held[-1].sequence & COUNTER_MASK >= next_counter:
            found.append(f"queue {number} would give a number twice")
    [(damaged, strays, size)] = connection.execute(
        "SELECT (SELECT count(*) FROM message WHERE state = 9),"
        " (SELECT count(*) FROM body WHERE id NOT IN (SELECT body FROM message)),"
        " (SELECT total(size) FROM message) - (SELECT total(message_bytes) FROM queue)"
    )
    if (damaged, strays, size) != (0, 0, 0):
        found.append(f"damaged {damaged}, strays {strays}, bytes off by {size}")
    return found
