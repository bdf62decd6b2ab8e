"""A messaging store in an SQL database: every call becomes work of its lane."""

import asyncio
import logging
from collections.abc import Sequence
from time import monotonic
from typing import Generic, TypeVar

from bendybus.model.errors import MessageLockLost, ServerBusy, StoreUnavailable
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, SubQueue
from bendybus.model.message import Lock, StoredMessage
from bendybus.model.operations import Answer, Append, Operation, Transfer
from bendybus.model.scanned import Scanned
from bendybus.model.staging import Chunk, StagedTally, Unfinished
from bendybus.model.store_status import StoreState, StoreStatus
from bendybus.store.figures import StoreFigures
from bendybus.store.port import (
    AcceptSession,
    AccessRecord,
    Acquire,
    AcquireDeferred,
    Due,
    EntityRecord,
    NumbersGiven,
    QueueCounts,
    QueueExtent,
    SessionCursor,
    SessionPage,
    SessionRefusal,
    Tally,
)
from bendybus.store.readers import ReaderRecord, Reservation
from bendybus.store.scan import Scan
from bendybus.store.sharing import Sharing
from bendybus.store.sql import (
    access,
    applying,
    catalog,
    counting,
    readers,
    reading,
    sessions,
    staging,
    transfers,
    uses,
)
from bendybus.store.sql.careful_scan import scan_carefully
from bendybus.store.sql.database import SqlDatabase
from bendybus.store.sql.lane import Lane
from bendybus.store.sql.scanner import NotOpen, ScanFailed, Scanner, Suspicious

_log = logging.getLogger(__name__)

D = TypeVar("D", bound=SqlDatabase)


class SqlStore(Sharing, Generic[D]):
    """What every store in an SQL database does alike; see `bendybus.store.port` for the promises.

    An engine's own class says where the store is and how it is.
    """

    def __init__(self, lane: Lane[D], scanner: Scanner) -> None:
        self._lane = lane
        self._scanner = scanner
        self._tallies = counting.TallyMemo()

    @property
    def is_shared(self) -> bool:
        """Whether other front ends may serve from it at the same time."""
        return False

    @property
    def is_online(self) -> bool:
        """Whether calls are served now."""
        return self._lane.state is StoreState.ONLINE

    @property
    def openings(self) -> int:
        """How often it went online."""
        return self._lane.openings

    @property
    def commits(self) -> int:
        """How often it has committed."""
        return self._lane.commits

    async def start(self) -> None:
        """Open the database; see `Lane.start`."""
        await self._lane.start()

    async def take_over(self, openings: int) -> Lane[D]:
        """Start in place of a store that was opened so many times; return what does the work."""
        self._lane.openings = openings
        await self.start()
        return self._lane

    def status(self) -> StoreStatus:
        """Say how the store is."""
        raise NotImplementedError

    async def close(self) -> None:
        """Finish what waits and close the database."""
        self._scanner.close()
        await self._lane.close()

    def apply(
        self,
        operations: Sequence[Operation],
        *,
        now: Instant,
        is_strict: bool = False,
        within_seconds: float | None = None,
    ) -> "asyncio.Future[list[Answer]]":
        """Write a batch atomically; one answer per operation."""
        deadline = None if within_seconds is None else monotonic() + within_seconds

        def work(database: SqlDatabase) -> list[Answer]:
            if deadline is not None and monotonic() > deadline:
                raise ServerBusy("The messaging store, or the broker, was held up for too long.")
            answers = applying.make_all(database, operations, now)
            if is_strict and any(isinstance(lost, list) and lost for lost in answers):
                raise MessageLockLost("The lock on a message of the batch is not held.")
            return answers

        return self._lane.submit(
            work,
            is_synced=any(map(applying.is_synced, operations)),
            is_one_append=len(operations) == 1 and type(operations[0]) is Append,
        )

    def acquire(self, request: Acquire, *, now: Instant) -> "asyncio.Future[list[StoredMessage]]":
        """Lock free messages."""
        return self._lane.submit(lambda db: reading.acquire(db, request, now), is_synced=False)

    def acquire_deferred(
        self, request: AcquireDeferred, *, now: Instant
    ) -> "asyncio.Future[list[StoredMessage]]":
        """Lock deferred messages by their sequence numbers."""
        return self._lane.submit(
            lambda db: reading.acquire_deferred(db, request, now), is_synced=False
        )

    def find_locked(
        self, queue: QueueNumber, locks: Sequence[Lock], *, now: Instant
    ) -> "asyncio.Future[list[StoredMessage]]":
        """Return those of the messages whose lock is held at `now`."""
        return self._lane.submit(
            lambda db: reading.find_locked(db, queue, locks, now), is_synced=False
        )

    def browse(
        self,
        queue: QueueNumber,
        *,
        from_sequence: int,
        count_max: int,
        bytes_max: int,
        session_id: str | None = None,
    ) -> "asyncio.Future[list[StoredMessage]]":
        """Read messages in order without touching them."""
        limits = count_max, bytes_max
        return self._lane.submit(
            lambda db: reading.browse(db, queue, from_sequence, limits, session_id),
            is_synced=False,
        )

    def scan(self, request: Scan) -> "asyncio.Task[Scanned]":
        """Read many messages as columns."""
        return asyncio.create_task(self._scan(request))

    async def _scan(self, request: Scan) -> Scanned:
        try:
            return await self._scanner.scan(request)
        except NotOpen:
            raise StoreUnavailable(self._lane.number, self._lane.reason) from None
        except Suspicious:
            pass
        except ScanFailed as error:
            # Whether the database is to blame, the lane finds out.
            _log.warning("a scan of store %d failed: %s", self._lane.number, error)
        return await self._lane.submit(lambda db: scan_carefully(db, request), is_synced=False)

    def find(
        self, queue: QueueNumber, sequences: Sequence[int]
    ) -> "asyncio.Future[list[StoredMessage]]":
        """Read messages by their numbers."""
        return self._lane.submit(lambda db: reading.find(db, queue, sequences), is_synced=False)

    def accept_session(
        self, request: AcceptSession, *, now: Instant
    ) -> "asyncio.Future[str | SessionRefusal]":
        """Lock a session."""
        return self._lane.submit(lambda db: sessions.accept(db, request, now), is_synced=False)

    def session_state(
        self, queue: QueueNumber, session_id: str, nonce: int, *, now: Instant
    ) -> "asyncio.Future[bytes | None]":
        """Return a session's state."""
        return self._lane.submit(
            lambda db: sessions.state(db, queue, session_id, nonce, now), is_synced=False
        )

    def sessions(
        self,
        queue: QueueNumber,
        *,
        changed_since: Instant | None,
        after: SessionCursor | None,
        count_max: int,
    ) -> "asyncio.Future[SessionPage]":
        """Return ids of sessions."""
        return self._lane.submit(
            lambda db: sessions.page(db, queue, changed_since, after, count_max), is_synced=False
        )

    def due(self, *, now: Instant, count_max: int) -> "asyncio.Future[list[Due]]":
        """Return messages whose lock, time to live or delay has ended."""
        return self._lane.submit(lambda db: reading.due(db, now, count_max), is_synced=False)

    def next_due(self) -> "asyncio.Future[Instant | None]":
        """Return when `due` will find something, if nothing changes until then."""
        return self._lane.submit(reading.next_due, is_synced=False)

    def transfers(
        self, *, after: Transfer, made_until: Instant, count_max: int
    ) -> "asyncio.Future[list[Transfer]]":
        """Return transfers that are remembered."""
        return self._lane.submit(
            lambda db: transfers.remembered(db, after, made_until, count_max), is_synced=False
        )

    def occupied(self, sub_queue: SubQueue) -> "asyncio.Future[list[QueueNumber]]":
        """Return the queues of one kind that hold messages."""
        return self._lane.submit(lambda db: reading.occupied(db, sub_queue), is_synced=False)

    def counts(self, queue: QueueNumber) -> "asyncio.Future[QueueCounts]":
        """Count what a queue holds."""
        return self._lane.submit(lambda db: reading.counts(db, queue), is_synced=False)

    def tallies(
        self, queues: Sequence[QueueNumber] | None = None
    ) -> "asyncio.Future[dict[QueueNumber, Tally]]":
        """Count by state what queues hold."""
        lane, memo = self._lane, self._tallies
        # What others do to a shared store is not noticed here.
        if queues is not None and self.is_online and not self.is_shared:
            known = memo.find(queues, (lane.openings, lane.changes))
            if known is not None:
                answered = asyncio.get_running_loop().create_future()
                answered.set_result(known)
                return answered

        def count(database: SqlDatabase) -> dict[QueueNumber, Tally]:
            found = counting.tallies(database, queues)
            memo.note(found, (lane.openings, database.changes_made))
            return found

        return lane.submit(count, is_synced=False)

    def extent(self, queue: QueueNumber) -> "asyncio.Future[QueueExtent]":
        """Say how many messages a queue holds, and where it ends now."""
        return self._lane.submit(lambda db: reading.extent(db, queue), is_synced=False)

    def locked(self) -> "asyncio.Future[dict[QueueNumber, int]]":
        """Count locked messages by queue."""
        return self._lane.submit(counting.locked, is_synced=False)

    def next_chunks(
        self, queue: QueueNumber, stages: Sequence[int], count_max: int = 1
    ) -> "asyncio.Future[list[Chunk]]":
        """Return the first chunks of some stages."""
        return self._lane.submit(
            lambda db: staging.next_chunks(db, queue, stages, count_max), is_synced=False
        )

    def unfinished(self) -> "asyncio.Future[list[Unfinished]]":
        """Return the decisions that are not carried out."""
        return self._lane.submit(staging.unfinished, is_synced=False)

    def staged_tally(self) -> "asyncio.Future[StagedTally]":
        """Say how much is staged here."""
        return self._lane.submit(staging.staged_tally, is_synced=False)

    def stale_stages(self, *, count_max: int) -> "asyncio.Future[list[tuple[int, QueueNumber]]]":
        """Return stages that can be forgotten, and their homes."""
        return self._lane.submit(lambda db: staging.stale_stages(db, count_max), is_synced=False)

    def readers(
        self, queues: Sequence[QueueNumber] | None = None
    ) -> "asyncio.Future[list[ReaderRecord]]":
        """Return the readers of queues, or all that are here."""
        return self._lane.submit(lambda db: readers.records(db, queues), is_synced=False)

    def reservations(
        self, queue: QueueNumber, reader: str, token: str, *, after: int, until: int, now: Instant
    ) -> "asyncio.Future[list[Reservation]]":
        """Return a reader's reservations within positions."""
        return self._lane.submit(
            lambda db: readers.reservations(db, (queue, reader, token), after, until, now),
            is_synced=False,
        )

    def read_reserved(
        self, queue: QueueNumber, number: int, *, from_sequence: int, count_max: int, bytes_max: int
    ) -> "asyncio.Future[list[StoredMessage]]":
        """Read messages of a reservation."""
        limits = count_max, bytes_max
        return self._lane.submit(
            lambda db: reading.read_reserved(db, queue, number, from_sequence, limits),
            is_synced=False,
        )

    def entities(self) -> "asyncio.Future[list[EntityRecord]]":
        """Return every entity known here."""
        return self._lane.submit(catalog.entities, is_synced=False)

    def versions(self) -> "asyncio.Future[dict[EntityNumber, int]]":
        """Return the version of every entity known here."""
        return self._lane.submit(catalog.versions, is_synced=False)

    def prepare(self, records: Sequence[EntityRecord]) -> "asyncio.Future[None]":
        """Note entities as they are about to be put."""
        number = self._lane.number
        return self._lane.submit(lambda db: catalog.prepare(db, number, records), is_synced=True)

    def prepared(self) -> "asyncio.Future[list[EntityRecord]]":
        """Return what was noted and not put."""
        return self._lane.submit(catalog.prepared, is_synced=False)

    def put_entities(
        self, records: Sequence[EntityRecord], *, is_prepared: bool = False
    ) -> "asyncio.Future[None]":
        """Create or replace entities, and make queues for the fragments that live here."""
        number = self._lane.number
        return self._lane.submit(
            lambda db: catalog.put_entities(db, number, records, is_prepared=is_prepared),
            is_synced=True,
        )

    def access(self) -> "asyncio.Future[list[AccessRecord]]":
        """Return the access rules of every namespace."""
        return self._lane.submit(access.access, is_synced=False)

    def put_access(self, record: AccessRecord) -> "asyncio.Future[None]":
        """Write the access rules of a namespace, unless newer ones are here."""
        return self._lane.submit(lambda db: access.put_access(db, record), is_synced=True)

    def note_uses(
        self, entities: Sequence[EntityNumber], *, now: Instant
    ) -> "asyncio.Future[None]":
        """Note that entities are in use."""
        return self._lane.submit(lambda db: uses.note_uses(db, entities, now), is_synced=False)

    def uses(self) -> "asyncio.Future[dict[EntityNumber, Instant]]":
        """Return when entities were noted to be in use."""
        return self._lane.submit(uses.uses, is_synced=False)

    def numbers_given(self) -> "asyncio.Future[NumbersGiven]":
        """Return the highest numbers ever given here."""
        return self._lane.submit(catalog.numbers_given, is_synced=False)

    def remove_entity(self, number: EntityNumber, *, count_max: int) -> "asyncio.Future[bool]":
        """Delete so many messages of an entity, and it when it has none."""
        return self._lane.submit(
            lambda db: catalog.remove_entity(db, number, count_max), is_synced=True
        )

    @property
    def log_bytes(self) -> int:
        """The size of a log that the broker itself writes back, if there is one."""
        return 0

    def figures(self) -> StoreFigures:
        """Say what the store has done so far."""
        lane = self._lane
        return StoreFigures(
            commit_seconds=lane.commit_seconds.so_far(),
            commit_callers=lane.commit_callers.so_far(),
            failures=lane.failures,
            write_backs=lane.write_backs,
            waiting=lane.waiting,
            log_bytes=self.log_bytes,
            traffic=lane.traffic.copy(),
        )

    async def take_offline(self, reason: str) -> None:
        """Stop serving; calls under way finish first."""
        await self._lane.take_offline(reason)

    async def bring_online(self) -> None:
        """Serve again."""
        await self._lane.bring_online()
