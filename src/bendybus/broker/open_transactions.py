"""open transactions: those of one connection, by id, until they are discharged or end."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.transaction import SentVia, Transaction
from bendybus.model.errors import (
    BusError,
    QuotaExceeded,
    TransactionTimedOut,
    TransactionUnknown,
)
from bendybus.model.ids import Instant
from bendybus.model.message import Lock, Message
from bendybus.model.outcome import Outcome
from bendybus.model.transaction import BUFFERED_BYTES_MAX, OPEN_MAX, TransactionLimits

TRANSACTION_ID_SIZE: Final = 16


class OpenTransactions:
    """What one connection has declared. Another connection's ids are unknown here.

    One that has run out of time stays, emptied, so that its owner learns of it by discharging it,
    unless its place is needed.
    """

    def __init__(self, limits: TransactionLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        # With the coordinator that declared each, which takes it along when it ends.
        self._open: dict[bytes, tuple[Transaction, object]] = {}
        # Those that are being written: what they hold is in memory still.
        self._committing: set[Transaction] = set()

    @property
    def buffered_bytes(self) -> int:
        """How much of messages is held in memory until their commit."""
        still_open = sum(transaction.buffered_bytes for transaction, _ in self._open.values())
        return still_open + sum(transaction.buffered_bytes for transaction in self._committing)

    def declare(self, owner: object) -> bytes:
        """Begin a transaction; return its id."""
        if self._count >= OPEN_MAX:
            self._forget_overdue()
        if self._count >= OPEN_MAX:
            raise QuotaExceeded(f"A connection can have at most {OPEN_MAX} open transactions.")
        ends_at = Instant(self._clock.now() + self._limits.seconds_max * 1000)
        transaction_id = secrets.token_bytes(TRANSACTION_ID_SIZE)
        self._open[transaction_id] = Transaction(self._limits.messages_max, ends_at), owner
        return transaction_id

    def send(
        self,
        transaction_id: bytes,
        queue: ServedQueue,
        messages: Sequence[Message],
        via: SentVia | None = None,
    ) -> None:
        """Let messages join a transaction; see `Transaction.send`."""
        self._with_room(transaction_id, messages).send(queue, messages, via)

    def schedule(
        self, transaction_id: bytes, queue: ServedQueue, messages: Sequence[Message]
    ) -> "asyncio.Task[list[int]]":
        """Let messages join that are to come later; see `Transaction.schedule`."""
        transaction = self._with_room(transaction_id, messages)
        return transaction.schedule(queue, messages, self._clock)

    def settle(
        self,
        transaction_id: bytes,
        sub_queue: ServedSubQueue,
        locks: Sequence[Lock],
        outcome: Outcome,
    ) -> "asyncio.Task[None]":
        """Let settlements join a transaction; see `Transaction.settle`."""
        return self._find(transaction_id).settle(sub_queue, locks, outcome, self._clock)

    def cancel(
        self, transaction_id: bytes, queue: ServedQueue, sequences: Sequence[int]
    ) -> "asyncio.Task[None]":
        """Let the deletion of scheduled messages join a transaction; see `Transaction.cancel`."""
        return self._find(transaction_id).cancel(queue, sequences, self._clock)

    def fail(self, transaction_id: bytes, error: BusError) -> None:
        """Note that a part of a transaction was refused before it could join."""
        entry = self._open.get(transaction_id)
        if entry is not None:
            entry[0].fail(error)

    def take_out(self, transaction_id: bytes) -> Transaction:
        """End a transaction for whatever comes next: it is the caller's to commit or to drop."""
        try:
            transaction = self._find(transaction_id)
        except TransactionTimedOut:
            # Its owner knows now.
            del self._open[transaction_id]
            raise
        del self._open[transaction_id]
        return transaction

    @contextmanager
    def writing(self, transaction: Transaction) -> Iterator[None]:
        """Count one that was taken out as open while it is being committed."""
        self._committing.add(transaction)
        try:
            yield
        finally:
            self._committing.discard(transaction)

    def roll_back(self, owner: object) -> None:
        """Roll back what a coordinator declared: it is gone."""
        gone = [each for each, (_, of) in self._open.items() if of is owner]
        for transaction_id in gone:
            transaction, _ = self._open.pop(transaction_id)
            transaction.drop()

    def end_overdue(self) -> None:
        """Free what transactions hold that have run out of time."""
        for transaction_id in self._overdue():
            self._open[transaction_id][0].drop()

    def _forget_overdue(self) -> None:
        for transaction_id in self._overdue():
            del self._open[transaction_id]

    def _overdue(self) -> list[bytes]:
        now = self._clock.now()
        return [each for each, (transaction, _) in self._open.items() if transaction.ends_at <= now]

    @property
    def _count(self) -> int:
        return len(self._open) + len(self._committing)

    def _find(self, transaction_id: bytes) -> Transaction:
        entry = self._open.get(transaction_id)
        if entry is None:
            raise TransactionUnknown("There is no open transaction with that id here.")
        if entry[0].ends_at <= self._clock.now():
            raise TransactionTimedOut(
                f"The transaction was open for {self._limits.seconds_max} seconds and has been"
                " rolled back."
            )
        return entry[0]

    def _with_room(self, transaction_id: bytes, messages: Sequence[Message]) -> Transaction:
        """Return a transaction, if there is room in memory for what is to join it."""
        transaction = self._find(transaction_id)
        buffered = self.buffered_bytes
        size = sum(len(message.content) for message in messages)
        if buffered + size > BUFFERED_BYTES_MAX:
            refusal = QuotaExceeded(
                f"The open transactions of a connection can hold {BUFFERED_BYTES_MAX} bytes; they"
                f" hold {buffered}, and what was sent has {size}."
            )
            transaction.fail(refusal)
            raise refusal
        return transaction
