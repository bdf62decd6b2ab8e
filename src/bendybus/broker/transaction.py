"""transaction: sends and settlements that are written in one commit, or not at all (R5)."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from bendybus.broker.admit import Admission, admit
from bendybus.broker.clock import Clock
from bendybus.broker.receive import locks_by_source
from bendybus.broker.schedule import check_scheduled
from bendybus.broker.send import check_open_for_send
from bendybus.broker.send_via import address, transferring
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue, Source
from bendybus.broker.served_topic import ServedSubscription
from bendybus.broker.settle import LOCK_LOST
from bendybus.model.entity import EntityStatus
from bendybus.model.errors import (
    BusError,
    InvalidOperation,
    MessageLockLost,
    MessagingInternal,
    StoreFailed,
    TransactionRolledBack,
)
from bendybus.model.ids import FragmentIndex, Instant, QueueNumber, SubQueue
from bendybus.model.message import Lock, Message
from bendybus.model.operations import Append, Guard, Operation, Remove, TakeNumbers
from bendybus.model.outcome import Complete, Outcome
from bendybus.model.settlement import operations_for
from bendybus.model.transaction import Destination, Home, TransactionScope, Via

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SentVia:
    """The entity by way of which a client sends to another, and the message's key there."""

    queue: ServedQueue
    key: str | None


class Transaction:
    """What has joined so far, kept in memory until the commit.

    A part that is refused dooms the whole: a client that does not look at the answer must not
    commit the rest alone (R5.4).
    """

    def __init__(self, messages_max: int, ends_at: Instant) -> None:
        self.ends_at = ends_at
        self.buffered_bytes = 0
        self._scope = TransactionScope(messages_max)
        # The entity of the home: the first that was used.
        self._queue: ServedQueue | None = None
        self._sends: list[Message] = []
        self._admissions: list[Admission] = []
        self._transfers: list[Message] = []
        # By the numbers that were told to who scheduled them.
        self._scheduled: dict[int, Message] = {}
        self._settlements: list[Operation] = []
        self._claimed: set[tuple[QueueNumber, int]] = set()
        self._returned: set[tuple[ServedSubQueue, Source]] = set()
        self._deciding: set[asyncio.Task[Any]] = set()
        self._failure: BusError | None = None

    def send(
        self, queue: ServedQueue, messages: Sequence[Message], via: SentVia | None = None
    ) -> None:
        """Let messages join, all or none. Nobody sees them before the commit."""
        with self._dooming():
            is_home = self._join(queue, messages, via)
        if is_home:
            self._sends += messages
        else:
            address(messages, queue)
            self._transfers += messages

    def schedule(
        self, queue: ServedQueue, messages: Sequence[Message], clock: Clock
    ) -> "asyncio.Task[list[int]]":
        """Let messages join that are to come later; the task ends with the number of each.

        The numbers are taken at once, and can be used to cancel after the commit.
        """
        with self._dooming():
            if not self._join(queue, messages, None):
                raise InvalidOperation(
                    "Messages to another entity than the one that the transaction belongs to have"
                    " no number before they arrive there; send them with their time instead."
                )
        return self._deciding_by(self._number(queue, messages, clock))

    def settle(
        self, sub_queue: ServedSubQueue, locks: Sequence[Lock], outcome: Outcome, clock: Clock
    ) -> "asyncio.Task[None]":
        """Let settlements join, all or none; they have joined when the task ends well.

        Which messages are meant is noted at once, so that what follows is judged in order.
        """
        with self._dooming():
            source = self._claim(sub_queue, locks)
        return self._deciding_by(self._decide(sub_queue, source, locks, outcome, clock))

    def cancel(
        self, queue: ServedQueue, sequences: Sequence[int], clock: Clock
    ) -> "asyncio.Task[None]":
        """Let the deletion of scheduled messages join, as `settle` does."""
        locks = [Lock(sequence, 0) for sequence in dict.fromkeys(sequences)]
        with self._dooming():
            check_open_for_send(queue)
            source = self._claim(queue.main, locks)
        return self._deciding_by(self._look_up(source, locks, clock))

    def fail(self, error: BusError) -> None:
        """Note that a part was refused, so that the rest is not committed without it."""
        self._failure = self._failure or error

    def drop(self) -> None:
        """Forget everything. Locks stay with their receivers until they end."""
        self._sends.clear()
        self._transfers.clear()
        self._scheduled.clear()
        self._settlements.clear()
        self.buffered_bytes = 0

    async def commit(self, clock: Clock) -> None:
        """Write everything in one commit; durable on return.

        Raises `TransactionRolledBack` when nothing was written, or `StoreFailed` when that is
        not known.
        """
        await asyncio.gather(*self._deciding, return_exceptions=True)
        if self._failure is not None:
            raise TransactionRolledBack(
                f"The transaction was rolled back, because a part of it was refused:"
                f" {self._failure}"
            ) from self._failure
        home, queue = self._scope.home, self._queue
        if home is None or queue is None:
            return
        now = clock.now()
        operations = await self._operations(queue, home.fragment, now)
        try:
            store = queue.main.sources[home.fragment].store
            await store.apply(operations, now=now, is_strict=True)
        except StoreFailed:
            raise
        except MessageLockLost as error:
            raise TransactionRolledBack(f"The transaction was rolled back. {LOCK_LOST}") from error
        except BusError as error:
            raise TransactionRolledBack(f"The transaction was rolled back. {error}") from error
        self._tell(queue, home.fragment, now)

    @contextmanager
    def _dooming(self) -> Iterator[None]:
        try:
            yield
        except BusError as error:
            self.fail(error)
            raise
        except BaseException:
            # A defect, or the end of the broker: what is left must not be committed either.
            self.fail(MessagingInternal("A part of the transaction failed; see the broker's log."))
            raise

    def _join(self, queue: ServedQueue, messages: Sequence[Message], via: SentVia | None) -> bool:
        """Let messages join; say whether they are for the home."""
        if queue.properties.status is not EntityStatus.ACTIVE:
            check_open_for_send(queue)
        through = None if via is None else Via(_destination(via.queue), via.key)
        place = self._scope.join_send(_destination(queue), messages, through)
        self._queue = self._queue or (queue if via is None else via.queue)
        self.buffered_bytes += sum(len(message.content) for message in messages)
        return place == self._scope.home

    def _claim(self, sub_queue: ServedSubQueue, locks: Sequence[Lock]) -> Source:
        """Note messages as settled here; each can be only once. Returns where they are."""
        groups = locks_by_source(sub_queue, list(locks))
        if sum(map(len, groups.values())) != len(locks):
            raise MessageLockLost(LOCK_LOST)
        for source, held in groups.items():
            claims = {(source.number, lock.sequence) for lock in held}
            if len(claims) != len(held) or claims & self._claimed:
                raise InvalidOperation("A message can be settled only once in a transaction.")
            place = Home(top_level(sub_queue.queue).name, source.fragment)
            self._scope.join_settlement(place, len(held))
            self._claimed |= claims
        self._queue = self._queue or top_level(sub_queue.queue)
        # All of one fragment, or the scope would have refused.
        [source] = groups
        return source

    def _deciding_by(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin what must be over before the commit."""
        task = asyncio.get_running_loop().create_task(work)
        self._deciding.add(task)
        return task

    async def _number(
        self, queue: ServedQueue, messages: Sequence[Message], clock: Clock
    ) -> list[int]:
        """Take the numbers of scheduled messages."""
        with self._dooming():
            assert self._scope.home is not None, "the messages have joined"
            source = queue.main.sources[self._scope.home.fragment]
            taking: list[Operation] = [TakeNumbers(source.number, len(messages))]
            [first] = await source.store.apply(taking, now=clock.now())
            assert isinstance(first, int), "a reservation is answered with a number"
        numbers = range(first, first + len(messages))
        self._scheduled.update(zip(numbers, messages, strict=True))
        return list(numbers)

    async def _look_up(self, source: Source, locks: Sequence[Lock], clock: Clock) -> None:
        """Look whether messages are scheduled still; it is checked again at the commit."""
        with self._dooming():
            await check_scheduled(source, locks, clock)
            self._settlements.append(Remove(source.number, locks, Guard.SCHEDULED))

    async def _decide(
        self,
        sub_queue: ServedSubQueue,
        source: Source,
        locks: Sequence[Lock],
        outcome: Outcome,
        clock: Clock,
    ) -> None:
        """Decide what settlements mean now; the locks are checked again at the commit."""
        with self._dooming():
            if not source.store.is_online:
                raise sub_queue.queue.unavailable(source)
            found = await source.store.find_locked(source.number, locks, now=clock.now())
            if len(found) != len(locks):
                raise MessageLockLost(LOCK_LOST)
            policy = sub_queue.policy(source)
            for message in found:
                self._settlements += operations_for(outcome, message.lock, message.marks, policy)
        if not isinstance(outcome, Complete):
            self._returned.add((sub_queue, source))

    async def _operations(
        self, queue: ServedQueue, fragment: FragmentIndex, now: Instant
    ) -> list[Operation]:
        """Return what to write. Settlements first: what they free makes room for the sends."""
        operations = _joined(self._settlements)
        main = queue.main.sources[fragment]
        for number, message in self._scheduled.items():
            if (message.scheduled_at or now) <= now:
                # Its time has come meanwhile: it is sent, under a number like any other.
                self._sends.append(message)
                continue
            admission = await admit(queue, main, [message], now)
            for append in admission.operations:
                assert isinstance(append, Append), "what is to come later is kept aside"
                append.numbered_from = number
            self._admissions.append(admission)
        if self._sends:
            self._admissions.append(await admit(queue, main, self._sends, now))
        for admission in self._admissions:
            admission.announce()
            operations += admission.operations
        if self._transfers:
            outbox = queue.sub_queues[SubQueue.TRANSFER].sources[fragment]
            operations.append(transferring(queue, outbox, self._transfers, now))
        return operations

    def _tell(self, queue: ServedQueue, fragment: FragmentIndex, now: Instant) -> None:
        """Wake whoever waits for what the commit has changed."""
        for admission in self._admissions:
            admission.tell()
        if self._transfers:
            outbox = queue.sub_queues[SubQueue.TRANSFER]
            outbox.note_added(outbox.sources[fragment], len(self._transfers))
        for sub_queue, source in self._returned:
            source.timetable.note(now)
            sub_queue.note_added(source, len(self._claimed))
            dead_letters = sub_queue.queue.sub_queues[SubQueue.DEAD_LETTER]
            dead_letters.note_added(dead_letters.sources[source.fragment], len(self._claimed))


def _destination(queue: ServedQueue) -> Destination:
    properties = queue.properties
    return Destination(
        queue.name,
        len(queue.main.sources),
        is_partitioned=queue.is_partitioned,
        requires_session=properties.requires_session,
        has_duplicate_detection=properties.requires_duplicate_detection,
    )


def _joined(settlements: Sequence[Operation]) -> list[Operation]:
    """Join the removals of one queue into one operation."""
    operations: list[Operation] = []
    removals: dict[tuple[QueueNumber, Guard], list[Lock]] = {}
    for operation in settlements:
        if isinstance(operation, Remove):
            removals.setdefault((operation.queue, operation.guard), []).extend(operation.locks)
        else:
            operations.append(operation)
    operations += [Remove(queue, locks, guard) for (queue, guard), locks in removals.items()]
    return operations


def top_level(queue: ServedQueue) -> ServedQueue:
    """Return the topic of a subscription; anything else stands for itself."""
    return queue.topic if isinstance(queue, ServedSubscription) else queue
