"""One open database of a store: what its ids mean, which queues it has, whose work is under way.

At any instant one transaction may read, decide and write. Who that is may change with every
commit: `begin` waits for its turn. So whoever is between `begin` and `commit` is alone, on every
engine, and all that is done there is written as if nobody else were.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import COUNTER_BITS, SubQueue
from bendybus.store.sql.seen_ids import SeenIds
from bendybus.store.sql.traffic import TrafficNotes

COUNTER_BITS_HERE: Final = 44
NO_ROW: Final = 0


class SqlDatabase(ABC):
    """Runs the statements of `queries/*.sql` by name. Used by the lane's thread alone.

    An engine's own class sets what has no value here, and calls `load` when it is open.
    """

    statements: Mapping[str, str]
    # Runs a text as it is: savepoints, and their end.
    execute: Callable[..., Any]
    # What duplicate detection knows.
    seen: SeenIds
    # Errors: pages that are damaged, constraints that refuse.
    corrupt: tuple[type[Exception], ...] = ()
    conflict: tuple[type[Exception], ...] = ()
    # What a row that is no longer a row of ours makes the readers raise: text that is not UTF-8 or
    # JSON, a number where a text was, a blob.
    unreadable: tuple[type[Exception], ...] = (ValueError, TypeError)

    def __init__(self, *, is_shared: bool) -> None:
        # Whether others write to it as well.
        self.is_shared: Final = is_shared
        # What to add to a sequence number of a queue to get its row.
        self._offsets: dict[int, int] = {}
        # The main queue of every fragment held here, by entity and fragment, and of every queue
        # the one that counts its bytes: its fragment's, or the one of its topic.
        self._fragments: dict[tuple[int, int], int] = {}
        self._mains: dict[int, int] = {}
        # Those of which messages are received by session; only these keep track of sessions.
        self.session_queues: set[int] = set()
        # Queues that may have runs. One too many costs a look.
        self.queues_with_runs: set[int] = set()
        # Likewise with packs, and whether any may be made: see `packs`.
        self.queues_with_packs: set[int] = set()
        self.keeps_packs = False
        # What was thrown away and is still to be deleted: how many contents, how many bytes.
        self.litter_bodies = 0
        self.litter_bytes = 0
        # What the commit under way does, for those who count it.
        self.traffic = TrafficNotes()
        # Rises when anybody has changed the catalog; of a database that others share.
        self.generation = 0
        self._is_catalog_changed = False
        # Whether it is this process that looks after the store.
        self.is_caretaker = not is_shared

    def load(self) -> None:
        """Read which queues are here, and what is left to do."""
        self.load_queues()
        if not self.is_shared:
            found = self.rows("queues_with_runs", (COUNTER_BITS_HERE,))
            self.queues_with_runs.update(queue for (queue,) in found)
        self.note_litter()

    def load_queues(self) -> None:
        """Read which queues are here, in place of what was known."""
        before = self.queue_numbers
        self._offsets.clear()
        self._fragments.clear()
        self._mains.clear()
        self.session_queues.clear()
        for row in self.rows("queues"):
            self.note_queue(*row)
        self.traffic.forget([queue for queue in before if queue not in self._offsets])

    def note_litter(self) -> None:
        """Look whether there is anything thrown away."""
        [(self.litter_bodies,)] = self.rows("litter_left")

    # What an engine does its own way.

    @abstractmethod
    def run(self, name: str, bindings: tuple[Any, ...] = ()) -> None:
        """Execute a statement that returns nothing."""

    @abstractmethod
    def row(self, name: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""

    @abstractmethod
    def rows(self, name: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Execute a statement that returns rows; for start-up and management, not for traffic."""

    @abstractmethod
    def array(self, numbers: Iterable[int]) -> object:
        """Bind many numbers, at least one, as one parameter."""

    @abstractmethod
    def blobs(self, values: Sequence[bytes]) -> object:
        """Bind many contents, at least one, as one parameter."""

    @abstractmethod
    def texts(self, values: Sequence[str | None]) -> object:
        """Bind many texts, at least one, as one parameter."""

    @property
    @abstractmethod
    def changed(self) -> int:
        """How many rows the last statement changed."""

    @property
    @abstractmethod
    def changes_made(self) -> int:
        """A number that is another after anything was changed here."""

    @abstractmethod
    def begin(self, *, is_synced: bool) -> None:
        """Start a commit that will, or will not, wait for the disk; calls `begin_work`."""

    def begin_one(self, *, is_synced: bool) -> None:
        """Start a commit of one append, which may then be made by `append_whole`."""
        self.begin(is_synced=is_synced)

    # Whether nothing was done yet in such a commit, where one statement can be all of it.
    is_untouched = False

    def find_room(self, queue: int) -> tuple[int, int]:
        """Return the next counter of a queue and its bytes; what was untouched still is."""
        raise NotImplementedError

    def append_whole(
        self, queue: int, first: int, now: int, size: int, contents: Sequence[bytes]
    ) -> None:
        """Let the commit be an append to a queue, of messages that have nothing but contents.

        It is written by `commit`; or before, if more is done.
        """
        raise NotImplementedError

    @abstractmethod
    def commit(self) -> None:
        """Commit what was begun, unless it was undone."""

    @abstractmethod
    def close(self) -> None:
        """Close in order."""

    @abstractmethod
    def abandon(self) -> None:
        """Close after a failure, touching nothing."""

    # How often `attend` is due, if it is.
    attend_seconds: float | None = None

    def attend(self) -> bool:
        """Look at what others did; say whether it has become ours to look after the store."""
        return False

    def note_catalog_changed(self) -> None:
        """Let others know, with this commit, that the catalog is another."""
        self._is_catalog_changed = True

    def write_back(self) -> bool:
        """Do what the engine has put off, if it is time; say whether it was."""
        return False

    # Callers.

    def begin_work(self) -> None:
        """Note that from here on something is done that may be undone alone."""
        self.seen.settle()
        self.traffic.begin()

    def finish_work(self) -> None:  # noqa: B027 - nothing, where each statement is answered at once
        """Make sure that all of one caller's work was accepted, before the next one's."""

    def begin_caller(self) -> None:
        """Start the work of one of the callers whom a commit is for."""
        self.execute("SAVEPOINT caller")
        self.begin_work()

    def end_caller(self) -> None:
        """Make the caller's work, or what is left of it, part of the commit."""
        self.execute("RELEASE caller")

    def undo_caller(self) -> None:
        """Undo the work of the caller."""
        self.execute("ROLLBACK TO caller")
        self.seen.undo()
        self.traffic.undo()

    def undo(self) -> None:
        """Undo the commit, of a single caller, that was begun."""
        self.roll_back()
        self.seen.undo()
        self.traffic.undo()

    def roll_back(self) -> None:
        """Let nothing become of the rows that were changed."""
        self.execute("ROLLBACK")

    # Queues.

    def note_queue(
        self,
        number: int,
        topic: int | None,
        entity: int,
        fragment: int,
        sub_queue: int,
        requires_session: object,
    ) -> None:
        """Note that a queue is here. Main ones come before the others, topics before the rest."""
        if sub_queue == SubQueue.MAIN:
            self._fragments[entity, fragment] = number
            if requires_session:
                self.session_queues.add(number)
            if self.is_shared and topic is not None:
                # What others publish is not heard of here.
                self.queues_with_runs.add(number)
        counting = entity if topic is None else topic
        self._mains[number] = self._fragments[counting, fragment]
        self._offsets[number] = (number << COUNTER_BITS_HERE) - (fragment << COUNTER_BITS)

    def forget_queues(self, entity: int, queues: Sequence[int]) -> None:
        """Note that the queues of an entity are here no longer."""
        for key in [key for key in self._fragments if key[0] == entity]:
            del self._fragments[key]
        for queue in queues:
            del self._mains[queue]
            del self._offsets[queue]
            self.session_queues.discard(queue)
        self.traffic.forget(queues)

    def note_no_runs(self, queue: int) -> None:
        """Note that a queue has no runs now, and none until some are kept here."""
        if not self.is_shared:
            self.queues_with_runs.discard(queue)

    def by_session(self, queue: int) -> int | None:
        """Return 1 if messages of a queue are received by session."""
        return 1 if queue in self.session_queues else None

    @property
    def fragments_held(self) -> int:
        """How many fragments are here."""
        return len(self._fragments)

    @property
    def queue_numbers(self) -> list[int]:
        """The numbers of all queues that are here."""
        return list(self._offsets)

    def offset(self, queue: int) -> int:
        """Return what makes a sequence number of the queue its row. Raises `EntityNotFound`."""
        try:
            return self._offsets[queue]
        except KeyError:
            raise EntityNotFound(f"The store holds no queue {queue}.") from None

    def main(self, queue: int) -> int:
        """Return the queue that counts the bytes: the fragment's main one, or its topic's."""
        return self._mains[queue]

    def sequence_of(self, row: int) -> int:
        """Return the sequence number of a message, wherever it is."""
        return row - self._offsets[row >> COUNTER_BITS_HERE]

    def message_ids(self, queue: int, sequences: Sequence[int]) -> list[int]:
        """Return the rows of messages; `NO_ROW` for a number that cannot be of this queue."""
        offset = self.offset(queue)
        ids = [offset + sequence for sequence in sequences]
        first, end = rows_of_queue(queue)
        if ids and (min(ids) < first or max(ids) >= end):
            return [row if first <= row < end else NO_ROW for row in ids]
        return ids


def rows_of_queue(queue: int) -> tuple[int, int]:
    """Return the first row that a queue's messages may have, and the first beyond."""
    return queue << COUNTER_BITS_HERE, (queue + 1) << COUNTER_BITS_HERE
