"""A session with the server, as a lane uses it.

Rules:
1. Whoever has the advisory lock of the store may read, decide and write. It is asked for in the
   first flight of every transaction, and nothing else is sent before it is there: what is late, by
   a network that held it back, finds that its transaction has ended.
2. A statement sees what was committed before it began, which for the one that waits for the lock is
   too early. So whether the catalog was changed is asked by the next one.
3. Commits wait for the disk, and for a synchronous standby if there is one, or not at all if all
   that they do is take locks; then the next one that waits makes them safe, too.
4. What returns nothing is sent and not waited for. What it refused is raised by the next that does
   return something, at the end of the caller's work if there are others, or by the commit.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final

import psycopg

from bendybus.store.port import UNTIL_REOPENED
from bendybus.store.postgres.consecutive import CONSECUTIVE
from bendybus.store.postgres.locks import TAKE_TURN
from bendybus.store.postgres.seen_ids import StoredSeenIds
from bendybus.store.postgres.statements import STATEMENTS
from bendybus.store.postgres.values import Numbers, packed_blobs, packed_texts
from bendybus.store.postgres.wire import Answer, Wire
from bendybus.store.sql.database import SqlDatabase

# They raise the generation, and who runs them may look at what they refuse.
_OF_CATALOG: Final = frozenset(
    {"put_entity", "put_queue", "prepare", "forget_prepared", "put_access", "remove_entity"}
)
_GENERATION: Final = "SELECT number FROM generation"
_IS_MOVED: Final = "SELECT count(*) FROM identity WHERE moved_to IS NOT NULL"
_UNSYNCED: Final = "SET LOCAL synchronous_commit = off"


class CommitUncertain(psycopg.OperationalError):
    """The server committed, and warned that it may not be safe."""


class StoreIsElsewhere(psycopg.OperationalError):
    """The store was moved away while it was open here."""


class PostgresDatabase(SqlDatabase):
    """One open session."""

    conflict = (psycopg.IntegrityError,)

    def __init__(self, wire: Wire, note_generation: Callable[[int], None]) -> None:
        super().__init__(is_shared=True)
        self.statements = STATEMENTS
        self.seen = StoredSeenIds(self)
        # The catalog's, as of the last transaction, and who else wants to know.
        self._generation = 0
        self._note_generation = note_generation
        self._has_changed_catalog = False
        self._wire = wire
        self._is_in_transaction = False
        # The last statement that was sent and whose answer nobody has asked for.
        self._last: Answer | None = None
        self._changes = count()
        # As it is before: what is changed meanwhile makes the first commit read it anew.
        self._generation = self._read_generation()
        self.load()

    def execute(self, text: str) -> None:
        """Run a text as it is, and wait for it."""
        self._asked(text, text)

    def run(self, name: str, bindings: tuple[Any, ...] = ()) -> None:
        """Execute a statement that returns nothing; mostly, send it."""
        self._send(name, bindings)
        if name in _OF_CATALOG:
            self._has_changed_catalog = True
            self._wait()

    def row(self, name: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""
        self._send(name, bindings)
        rows = self._answered().rows()
        return rows[0] if rows else None

    def rows(self, name: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement that returns rows."""
        self._send(name, bindings)
        return self._answered().rows()

    def array(self, numbers: Iterable[int]) -> object:
        """Bind many numbers."""
        return Numbers(numbers)

    def blobs(self, values: Sequence[bytes]) -> object:
        """Bind many contents."""
        return packed_blobs(values)

    def texts(self, values: Sequence[str | None]) -> object:
        """Bind many texts."""
        return packed_texts(values)

    @property
    def changed(self) -> int:
        """How many rows the last statement changed."""
        self._wait()
        return 0 if self._last is None else self._last.changed

    @property
    def changes_made(self) -> int:
        """Another number each time: others may change anything at any time."""
        return next(self._changes)

    def begin(self, *, is_synced: bool) -> None:
        """Wait for our turn."""
        wire = self._wire
        wire.send("BEGIN", "BEGIN")
        if not is_synced:
            wire.send(_UNSYNCED, _UNSYNCED)
        wire.send("turn", TAKE_TURN)
        self._is_in_transaction = True
        self._has_changed_catalog = False
        generation = self._read_generation()
        if generation != self._generation:
            self._read_catalog(generation)
        self.begin_work()

    def commit(self) -> None:
        """Commit what was begun, unless it was undone."""
        if not self._is_in_transaction:
            return
        self._is_in_transaction = False
        generation = self._read_generation() if self._has_changed_catalog else self._generation
        self._wire.warnings.clear()
        answer = self._asked("COMMIT", "COMMIT")
        if answer.status != b"COMMIT":
            raise psycopg.OperationalError(f"the server did not commit: {answer.status.decode()}")
        if self._wire.warnings:
            # A commit that was not waited for until a standby had it ends well, with a warning.
            raise CommitUncertain("; ".join(self._wire.warnings))
        if generation != self._generation:
            self._generation = generation
            self._note_generation(generation)

    def finish_work(self) -> None:
        """Wait for what the caller has sent."""
        self._wait()

    def begin_caller(self) -> None:
        """Start the work of one of several callers."""
        self._wire.send("SAVEPOINT caller", "SAVEPOINT caller")
        self.begin_work()

    def end_caller(self) -> None:
        """Make the caller's work part of the commit."""
        self._wire.send("RELEASE caller", "RELEASE caller")

    def undo_caller(self) -> None:
        """Undo the work of the caller."""
        self._let_pass()
        super().undo_caller()

    def undo(self) -> None:
        """Undo the commit that was begun."""
        self._let_pass()
        self._is_in_transaction = False
        super().undo()

    def end_holds(self) -> None:
        """End what the tasks of the caretaker before us held, and look at what it left."""
        self.run("end_holds", (UNTIL_REOPENED,))
        self.note_litter()

    def close(self) -> None:
        """End the session."""
        self._wire.close()

    def abandon(self) -> None:
        """End the session; what was begun is rolled back by the server."""
        self._wire.close()

    def _read_catalog(self, generation: int) -> None:
        """Read which queues are here now, unless the store is here no longer."""
        [(is_moved,)] = self._asked("is_moved", _IS_MOVED).rows()
        if is_moved:
            raise StoreIsElsewhere("the store was moved to another place")
        self.load_queues()
        self._generation = generation
        self._note_generation(generation)

    def _read_generation(self) -> int:
        [(generation,)] = self._asked("generation", _GENERATION).rows()
        return int(generation)

    def _send(self, name: str, bindings: tuple[Any, ...]) -> None:
        text = CONSECUTIVE.get(name)
        if text is not None:
            ends = bindings[0].ends
            if ends is not None:
                self._wire.send(f"{name}, consecutive", text, (ends, *bindings[1:]))
                return
        self._wire.send(name, STATEMENTS[name], bindings)

    def _asked(self, name: str, text: str) -> Answer:
        self._wire.send(name, text)
        return self._answered()

    def _answered(self) -> Answer:
        self._last = self._wire.answers()[-1]
        return self._last

    def _wait(self) -> None:
        if self._wire.has_unanswered:
            self._answered()

    def _let_pass(self) -> None:
        """Wait for what was sent, whatever becomes of it: it is undone."""
        try:
            self._wait()
        except psycopg.Error as error:
            if error.diag.severity_nonlocalized != "ERROR":
                raise
