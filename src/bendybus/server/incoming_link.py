"""A client sends to a queue: deliveries become messages, and are accepted once they are on disk."""

import asyncio
from collections.abc import Iterable
from typing import Final

from bendybus.amqp.deliveries import consecutive_ranges
from bendybus.amqp.events import OversizedTransferReceived, TransferReceived
from bendybus.amqp.outcomes import TransactionalState
from bendybus.amqp.session import AmqpLink
from bendybus.broker.clock import Clock
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.rate_limits import ConnectionRate
from bendybus.broker.send import check_one_key, check_session_ids, group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.transaction import SentVia
from bendybus.content.incoming_message import BATCH_FORMAT, read_batch, read_message
from bendybus.model.errors import BusError, MessageTooLarge, NotImplementedYet, Throttled
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.server.outlet import Outlet
from bendybus.server.token_node import Access
from bendybus.server.translate import ACCEPTED, rejected

CREDIT: Final = 5000
# Stores that may be busy for one link at once. What arrives meanwhile is gathered, so that the
# next commit is a large one.
STORING_MAX: Final = 2
# Messages with keys are spread over as many commits as there are fragments. From so many on, they
# are gathered for longer, so that each is larger; and answered for so long together, because
# neighbours end up in different ones.
SPREAD_GROUPS: Final = 4
ANSWER_SECONDS: Final = 0.002

# What is stored together: the deliveries to answer, the messages, and the fragment they are bound
# to, if they have a key.
_Group = tuple[list[int], list[Message], FragmentIndex | None]


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
        self._is_id_wanted = queue.duplicate_window_ms is not None
        # What bounds how many messages come in a second, if anything does.
        self.rate: ConnectionRate | None = None
        self._lane: list[TransferReceived] = []
        # Deliveries that have joined a transaction and are to be answered, by its id.
        self._joined: dict[bytes, list[int]] = {}
        self._storing = 0
        self._storing_max = STORING_MAX
        # Deliveries that are stored and not answered yet, and the timer that answers them.
        self._accepted: list[int] = []
        self._answering: asyncio.TimerHandle | None = None
        self._unanswered = 0

    def open(self) -> None:
        """Let the client begin."""
        self.link.grant(CREDIT)

    def take(self, event: TransferReceived) -> None:
        """Put a delivery into the lane; `work` follows when all of a read are in."""
        if event.state is not None:
            self._join(event)
            return
        self._lane.append(event)
        self._outlet.note_read(len(event.payload))

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
        if not self._lane or self._storing >= self._storing_max:
            return
        events, self._lane = self._lane, []
        if self.rate is not None and not self._let_through(events, self.rate):
            return
        self._storing += 1
        self._unanswered += len(events)
        self._outlet.spawn(self._store(events))

    def _let_through(self, events: list[TransferReceived], rate: ConnectionRate) -> bool:
        """Refuse what came together if it is too much for now."""
        try:
            rate.check(len(events))
        except Throttled as error:
            self._note_stored(events)
            self.refuse([event.delivery_id for event in events if not event.settled], error)
            self.regrant()
            self._outlet.flush_soon()
            return False
        return True

    def _note_stored(self, events: list[TransferReceived]) -> None:
        self._outlet.note_stored(sum([len(event.payload) for event in events]), len(events))

    async def _store(self, events: list[TransferReceived]) -> None:
        try:
            await self._store_all(events)
        finally:
            self._note_stored(events)
            self._storing -= 1
            self._unanswered -= len(events)
            self.regrant()
            self.work()
            self._outlet.flush_soon()

    async def _store_all(self, events: list[TransferReceived]) -> None:
        """Store deliveries in the order they came: batches, and runs of messages between them."""
        groups: list[_Group] = []
        run: list[tuple[int, Message]] = []
        # Deliveries whose messages go to several fragments.
        split: set[int] = set()
        has_sessions = self.queue.main.has_sessions
        for event in events:
            delivery_id = event.delivery_id
            try:
                if event.message_format == BATCH_FORMAT:
                    batch = self._checked_batch(event.payload)
                    groups += self._groups_of(run)
                    run = []
                    parts = self._groups_of_batch(delivery_id, batch)
                    if len(parts) > 1:
                        split.add(delivery_id)
                    groups += parts
                else:
                    message = read_message(event.payload, is_id_wanted=self._is_id_wanted)
                    if has_sessions:
                        check_session_ids(self.queue, [message])
                    run.append((delivery_id, message))
            except BusError as error:
                if not event.settled:
                    self.refuse([delivery_id], error)
        groups += self._groups_of(run)
        self._storing_max = STORING_MAX if len(groups) < SPREAD_GROUPS else 1
        silent = {event.delivery_id for event in events if event.settled}
        # Begun in this order, which is what keeps it within each fragment. A single group takes
        # the same way: awaited directly, it would overtake what an earlier read has begun.
        refusals = await asyncio.gather(
            *(self._store_group(group, silent | split) for group in groups)
        )
        if split:
            self._answer_split(split - silent, groups, refusals)
        self._answer_accepted()

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
        if event.message_format == BATCH_FORMAT:
            return self._checked_batch(event.payload)
        return [read_message(event.payload, is_id_wanted=self._is_id_wanted)]

    def sent_via(self, event: TransferReceived) -> SentVia | None:
        """Say by way of what a delivery goes, if it does not go straight."""
        del event
        return None

    def _fail_transaction(self, state: object, error: BusError) -> None:
        if isinstance(state, TransactionalState):
            self._transactions.fail(state.txn_id, error)

    def _groups_of(self, run: list[tuple[int, Message]]) -> list[_Group]:
        ids = [delivery_id for delivery_id, _ in run]
        messages = [message for _, message in run]
        return [
            ([ids[at] for at in places], [messages[at] for at in places], fragment)
            for fragment, places in group_by_fragment(self.queue, messages).items()
            if places
        ]

    def _groups_of_batch(self, delivery_id: int, batch: list[Message]) -> list[_Group]:
        """Keep a batch together, in the fragment of its key; with ids as keys, take it apart."""
        groups = group_by_fragment(self.queue, batch)
        if self._is_id_wanted:
            return [
                ([delivery_id], [batch[at] for at in places], fragment)
                for fragment, places in groups.items()
            ]
        keyed = [each for each in groups if each is not None]
        return [([delivery_id], batch, keyed[0] if keyed else None)]

    def _answer_split(
        self, ids: set[int], groups: list[_Group], refusals: list[BusError | None]
    ) -> None:
        """Answer batches whose parts are all stored or refused by now."""
        refused: dict[int, BusError] = {}
        for (members, _, _), refusal in zip(groups, refusals, strict=True):
            if refusal is not None:
                refused.update(dict.fromkeys(members, refusal))
        for delivery_id in sorted(ids):
            if delivery_id in refused:
                self.refuse([delivery_id], refused[delivery_id])
            else:
                self.link.settle(delivery_id, delivery_id, ACCEPTED)
        self._outlet.flush_soon()

    async def _store_group(self, group: _Group, silent: set[int]) -> BusError | None:
        """Store messages of one fragment, and answer their deliveries unless they are silent.

        Returns why they were refused, if they were.
        """
        ids, messages, fragment = group
        if silent:
            ids = [each for each in ids if each not in silent]
        try:
            await send(self.queue, messages, fragment, self._clock)
        except BusError as error:
            self.refuse(ids, error)
            return error
        else:
            self._accepted += ids
            if self._storing_max == 1:
                # Neighbours are in other fragments: together they make a range.
                self._answer_soon()
            else:
                self._answer_accepted()
            return None
        finally:
            self._outlet.flush_soon()

    def _answer_soon(self) -> None:
        """Answer what is accepted a little later, or when all that is on its way is stored."""
        if self._answering is None:
            loop = asyncio.get_running_loop()
            self._answering = loop.call_later(ANSWER_SECONDS, self._answer_accepted)

    def _answer_accepted(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
            self._answering = None
        ids, self._accepted = self._accepted, []
        for first, last in consecutive_ranges(ids):
            self.link.settle(first, last, ACCEPTED)
        self._outlet.flush_soon()

    def _checked_batch(self, payload: bytes) -> list[Message]:
        batch = read_batch(payload, is_id_wanted=self._is_id_wanted)
        check_session_ids(self.queue, batch)
        check_one_key(self.queue, batch)
        return batch

    def refuse(self, ids: Iterable[int], error: BusError) -> None:
        """Reject deliveries."""
        outcome = rejected(error, self._clock.now())
        for first, last in consecutive_ranges(ids):
            self.link.settle(first, last, outcome)

    def regrant(self) -> None:
        """Renew the credit when half is used, less what we have not answered yet."""
        room = CREDIT - self._unanswered - len(self._lane)
        if self.link.credit <= CREDIT // 2 and room > self.link.credit:
            self.link.grant(room)
