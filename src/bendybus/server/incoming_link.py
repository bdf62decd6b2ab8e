"""A client sends to a queue: deliveries become messages, and are accepted once they are on disk."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.amqp.deliveries import consecutive_ranges
from bendybus.amqp.events import (
    OversizedTransferReceived,
    TransferReceived,
    TransferRunReceived,
)
from bendybus.amqp.outcomes import TransactionalState
from bendybus.amqp.session import AmqpLink
from bendybus.broker.clock import Clock
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.rate_limits import ConnectionRate
from bendybus.broker.send import send
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.transaction import SentVia
from bendybus.content.incoming_message import BATCH_FORMAT
from bendybus.model.errors import BusError, MessageTooLarge, NotImplementedYet, Throttled
from bendybus.model.message import Message
from bendybus.server.fragment_turns import FragmentTurns, Group, Intake, SplitBatch
from bendybus.server.outlet import Outlet
from bendybus.server.sorting import Sorting
from bendybus.server.token_node import Access
from bendybus.server.translate import ACCEPTED, rejected

CREDIT: Final = 5000
# Messages with keys are spread over as many commits as there are fragments, and neighbours are in
# different ones. They are answered when that is half of what is in hand, or after so long:
# neighbours make ranges then, and a client that hears of many at once sends many at once.
ANSWER_SECONDS: Final = 0.01
# While one commit is under way, fewer deliveries than this wait for its end: two small commits side
# by side take longer than one of both. But not for longer than most commits take (decisions/0028).
SECOND_COMMIT_DELIVERIES: Final = 64
PATIENCE_SECONDS: Final = 0.005


class IncomingLink:
    """One link of a sender, and its lane: what came and is not stored yet."""

    def __init__(
        self,
        outlet: Outlet,
        link: AmqpLink,
        queue: ServedQueue,
        clock: Clock,
        access: Access,
        transactions: OpenTransactions,
    ) -> None:
        self.link = link
        self.access = access
        self.queue = queue
        self._outlet = outlet
        self._clock = clock
        self._transactions = transactions
        self._sorting = Sorting(queue, self.refuse)
        # What bounds how many messages come in a second, if anything does.
        self.rate: ConnectionRate | None = None
        self._lane: list[TransferRunReceived] = []
        self._lane_count = 0
        # Ends the patience of what is in the lane.
        self._patience: asyncio.TimerHandle | None = None
        # Deliveries that have joined a transaction and are to be answered, by its id.
        self._joined: dict[bytes, list[int]] = {}
        self._turns = FragmentTurns(self._store, outlet.spawn, self._note_turn_end)
        # Of turns that have ended since something was answered.
        self._messages_done = 0
        # Deliveries that are stored and not answered yet, and the timer that answers them.
        self._accepted: list[int] = []
        self._answering: asyncio.TimerHandle | None = None
        self._unanswered = 0

    def open(self) -> None:
        """Let the client begin."""
        self.link.takes_runs = True
        self.link.grant(CREDIT)

    def take(self, event: TransferReceived) -> None:
        """Put a delivery into the lane; `work` follows when all of a read are in."""
        if event.state is not None:
            self._join(event)
            return
        self.take_run(run_of(event))

    def take_run(self, run: TransferRunReceived) -> None:
        """Put deliveries into the lane; `work` follows when all of a read are in."""
        count = len(run.payloads)
        self._lane.append(run)
        self._lane_count += count
        self._outlet.note_read(sum(map(len, run.payloads)), count)

    def refuse_oversized(self, event: OversizedTransferReceived) -> None:
        """Refuse a delivery that was too large to keep."""
        limit = self.link.message_size_max
        error = MessageTooLarge(
            f"The message or batch has {event.size} bytes; the entity '{self.queue.name}' takes"
            f" {limit}."
        )
        self._fail_transaction(event.state, error)
        if not event.settled:
            self.refuse([event.delivery_id], error)
        self.regrant()

    def work(self) -> None:
        """Store what is in the lane, unless enough is on its way already."""
        if self._joined:
            self._answer_joined()
        if not self._lane:
            return
        if self._turns.is_spread and self._turns.is_gathering:
            # It has to wait in any case; read now, it is still in the processor's cache.
            self._take_in()
            return
        running = self._turns.running
        if running >= self._turns.turns_max:
            return
        if running == 0 or self._is_worth_a_second_commit():
            self._take_in()
        elif self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(PATIENCE_SECONDS, self._lose_patience)

    def _is_worth_a_second_commit(self) -> bool:
        is_batch = self._lane[0].message_format == BATCH_FORMAT
        return is_batch or self._lane_count >= SECOND_COMMIT_DELIVERIES

    def _lose_patience(self) -> None:
        self._patience = None
        if self._turns.running < self._turns.turns_max:
            self._take_in()

    def _take_in(self) -> None:
        """Take all that is in the lane to the turns of its fragments."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if not self._lane:
            return
        runs, self._lane = self._lane, []
        count, self._lane_count = self._lane_count, 0
        if self.rate is not None and not self._let_through(runs, self.rate):
            return
        self._unanswered += count
        self._outlet.spawn(self._sort(runs))

    def _let_through(self, runs: Sequence[TransferRunReceived], rate: ConnectionRate) -> bool:
        """Refuse what came together if it is too much for now."""
        payloads = [payload for run in runs for payload in run.payloads]
        try:
            rate.check(len(payloads))
        except Throttled as error:
            self._outlet.note_stored(sum(map(len, payloads)), len(payloads))
            for run in runs:
                if not run.settled:
                    self.refuse(run.delivery_ids, error)
            self.regrant()
            self._outlet.flush_soon()
            return False
        return True

    async def _sort(self, runs: Sequence[TransferRunReceived]) -> None:
        """Read deliveries, and let them wait for their turns."""
        intake, groups = self._sorting.groups_of(runs)
        if groups:
            self._turns.put(groups)
        else:
            self._finish(intake)

    async def _store(self, group: Group) -> None:
        """Store a group, and answer the deliveries of which nothing is left to store."""
        refusal: BusError | None = None
        try:
            await send(self.queue, group.messages, group.fragment, self._clock)
        except BusError as error:
            refusal = error
            self.refuse(group.delivery_ids, error)
        else:
            self._accepted += group.delivery_ids
        for batch in group.split_batches:
            self._note_part_stored(batch, refusal)
        if self._turns.is_spread:
            self._answer_soon()
        else:
            self._answer_accepted()
        for intake in group.intakes:
            intake.groups_left -= 1
            if intake.groups_left == 0:
                self._finish(intake)
        self._outlet.flush_soon()

    def _note_turn_end(self, messages_done: int) -> None:
        self._messages_done += messages_done
        if self._accepted and 2 * self._messages_done >= self._turns.message_count:
            self._answer_accepted()
        self._take_in()

    def _note_part_stored(self, batch: SplitBatch, refusal: BusError | None) -> None:
        """Note that a part of a batch was stored or refused; answer it if it was the last."""
        batch.groups_left -= 1
        batch.refusal = batch.refusal or refusal
        if batch.groups_left or batch.is_settled:
            return
        if batch.refusal is not None:
            self.refuse([batch.delivery_id], batch.refusal)
        else:
            self._accepted.append(batch.delivery_id)

    def _finish(self, intake: Intake) -> None:
        """Make room for others: all that was taken in together is stored or refused."""
        self._outlet.note_stored(intake.payload_bytes, intake.delivery_count)
        self._unanswered -= intake.delivery_count
        self.regrant()
        self._outlet.flush_soon()

    def _join(self, event: TransferReceived) -> None:
        """Let a delivery join its transaction (AMQP 1.0 §4.4.1).

        At once, and not by way of the lane: a discharge right behind must find it.
        """
        state = event.state
        try:
            if not isinstance(state, TransactionalState):
                raise NotImplementedYet("Deliveries cannot be resumed.")
            if self.rate is not None:
                self.rate.check(1)
            messages = self.messages_of(event)
            via = self.sent_via(event)
            self._transactions.send(state.txn_id, self.queue, messages, via)
        except BusError as error:
            self._fail_transaction(state, error)
            if not event.settled:
                self.refuse([event.delivery_id], error)
        else:
            if not event.settled:
                self._joined.setdefault(state.txn_id, []).append(event.delivery_id)
        self.regrant()

    def _answer_joined(self) -> None:
        """Answer the deliveries of a read that have joined transactions, as few ranges."""
        joined, self._joined = self._joined, {}
        for transaction_id, ids in joined.items():
            for first, last in consecutive_ranges(ids):
                self.link.settle(first, last, TransactionalState(transaction_id, ACCEPTED))

    def messages_of(self, event: TransferReceived) -> list[Message]:
        """Read the messages of a delivery: one, or those of a batch."""
        return self._sorting.messages_of(event)

    def sent_via(self, event: TransferReceived) -> SentVia | None:
        """Say by way of what a delivery goes, if it does not go straight."""
        del event
        return None

    def _fail_transaction(self, state: object, error: BusError) -> None:
        if isinstance(state, TransactionalState):
            self._transactions.fail(state.txn_id, error)

    def _answer_soon(self) -> None:
        """Answer what is accepted a little later, unless something makes it worth while before."""
        if self._answering is None:
            loop = asyncio.get_running_loop()
            self._answering = loop.call_later(ANSWER_SECONDS, self._answer_accepted)

    def _answer_accepted(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None
        self._messages_done = 0
        ids, self._accepted = self._accepted, []
        self.link.accept(consecutive_ranges(ids))
        self._outlet.flush_soon()

    def refuse(self, ids: Iterable[int], error: BusError) -> None:
        """Reject deliveries."""
        outcome = rejected(error, self._clock.now())
        for first, last in consecutive_ranges(ids):
            self.link.settle(first, last, outcome)

    def regrant(self) -> None:
        """Renew the credit when half is used, less what we have not answered yet."""
        room = CREDIT - self._unanswered - self._lane_count
        if self.link.credit <= CREDIT // 2 and room > self.link.credit:
            self.link.grant(room)


def run_of(event: TransferReceived) -> TransferRunReceived:
    """Return a delivery that came by itself as a run."""
    return TransferRunReceived(
        event.link, event.message_format, event.settled, [event.delivery_id], [event.payload]
    )
