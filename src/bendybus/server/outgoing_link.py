"""A client receives from a queue: messages are locked as far as its credit goes, and settled."""

import asyncio
from collections.abc import Iterable
from typing import Final

from bendybus.amqp.events import DispositionReceived
from bendybus.amqp.outcomes import TransactionalState
from bendybus.amqp.session import AmqpLink, OutgoingDelivery
from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.settle import settle
from bendybus.content.outgoing_message import Quick, deliveries_of
from bendybus.model.errors import BusError
from bendybus.model.message import StoredMessage
from bendybus.model.outcome import Complete, Outcome
from bendybus.server.outlet import Outlet
from bendybus.server.token_node import Access
from bendybus.server.translate import answer_state, outcome_of, rejected

# How many messages one turn hands out, so that one greedy link does not hold up the others.
DELIVER_MAX: Final = 1000
# Settlements that may be under way at once. What comes meanwhile is gathered into the next.
SETTLING_MAX: Final = 2
# Messages of a session lie far from each other, and near those of the sessions beside it: the more
# of them one commit removes, the fewer pages it writes for each.
SETTLING_IN_SESSION_MAX: Final = 1

_COMPLETE: Final = Complete()


class OutgoingLink:
    """One link of a receiver. One task hands messages out; settlements come beside it."""

    def __init__(
        self,
        outlet: Outlet,
        link: AmqpLink,
        receiver: Receiver | SessionReceiver,
        clock: Clock,
        access: Access,
        transactions: OpenTransactions,
    ) -> None:
        self.link = link
        # It is being detached, as soon as all that was said of it is done.
        self.is_ending = False
        self.access = access
        self.sub_queue = receiver.sub_queue
        self._outlet = outlet
        self._clock = clock
        self._transactions = transactions
        self._is_settled = receiver.mode is ReceiveMode.RECEIVE_AND_DELETE
        self._receiver = receiver
        self._quick = Quick(
            is_locked=not self._is_settled, is_partitioned=self.sub_queue.queue.is_partitioned
        )
        # Deleted for this client when its credit went away; they go out before all others.
        self._owed: list[StoredMessage] = []
        self._settlements: list[DispositionReceived] = []
        self._settling = 0
        self._settling_max = SETTLING_MAX if self.session is None else SETTLING_IN_SESSION_MAX
        self._all_settled: asyncio.Future[None] | None = None
        self._change: asyncio.Future[None] | None = None
        self._hint: asyncio.Future[None] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_end)

    @property
    def session(self) -> HeldSession | None:
        """The session that the link leads to, if it leads to one."""
        return self._receiver.held if isinstance(self._receiver, SessionReceiver) else None

    def wake(self) -> None:
        """Look again: credit, drain, window or the way out may have changed."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def take(self, event: DispositionReceived) -> None:
        """Note a settlement; `work` follows when all of a read are in."""
        if type(event.state) is TransactionalState:
            self._join(event, event.state)
            return
        self._settlements.append(event)

    def work(self) -> None:
        """Apply the settlements that came, unless enough are on their way already."""
        if self._settlements and self._settling < self._settling_max:
            events, self._settlements = self._settlements, []
            self._settling += 1
            self._outlet.spawn(self._settle(events))

    async def close(self) -> None:
        """End the task and give back what this client was not handed (R3.2)."""
        self._task.cancel()
        await asyncio.wait([self._task])
        self._leave()
        if self.session is not None:
            # The end of its lock would overtake what the client has said of its messages.
            await self.settled()
        await self._receiver.close()

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._outlet.fail(error)

    async def _run(self) -> None:
        link = self.link
        while True:
            count = 0 if self._outlet.is_blocked else min(link.sendable(), DELIVER_MAX)
            if count > 0:
                if not self._owed:
                    self._owed = await self._receiver.receive(count)
                if self._owed:
                    self._deliver()
                    if self._owed and not self._is_settled:
                        owed, self._owed = self._owed, []
                        await self._receiver.take_back(owed)
                    # Let reads and other links have their turn.
                    await asyncio.sleep(0)
                    continue
            if link.drain and not self._outlet.is_blocked:
                link.answer_drain()
                self._outlet.flush_soon()
            await self._wait(is_hungry=link.sendable() > 0)

    async def _wait(self, *, is_hungry: bool) -> None:
        """Sleep until something changes: the link or, if it could take any, the queue."""
        if is_hungry and self._hint is None:
            self._hint = self._receiver.waiting.join()
            self._hint.add_done_callback(self._on_hint)
        self._change = asyncio.get_running_loop().create_future()
        try:
            await self._change
        finally:
            self._change = None

    def _on_hint(self, hint: "asyncio.Future[None]") -> None:
        self._hint = None
        if hint.cancelled():
            return
        if self._outlet.is_blocked or self.link.sendable() <= 0:
            # Not for us then: somebody else can use it.
            self._receiver.waiting.wake(1)
        self.wake()

    def _leave(self) -> None:
        if self._hint is not None:
            self._receiver.waiting.leave(self._hint)
            self._hint = None

    def _deliver(self) -> None:
        """Hand out what was taken, as far as the link lets us; the rest stays owed."""
        deliveries = deliveries_of(self._owed, self._quick)
        sent = self.link.send_many(deliveries, settled=self._is_settled)
        del self._owed[:sent]
        self._outlet.flush_soon()

    async def settled(self) -> None:
        """Wait until all that the client has said is done."""
        while self._settling or self._settlements:
            if self._all_settled is None:
                self._all_settled = asyncio.get_running_loop().create_future()
            await self._all_settled

    async def _settle(self, events: list[DispositionReceived]) -> None:
        try:
            await self._settle_all(events)
        finally:
            self._settling -= 1
            self.work()
            if self._all_settled is not None and not self._settling:
                self._all_settled.set_result(None)
                self._all_settled = None
            self._outlet.flush_soon()

    async def _settle_all(self, events: list[DispositionReceived]) -> None:
        completed: list[OutgoingDelivery] = []
        unanswered: set[int] = set()
        for event in events:
            if not event.settled:
                unanswered.update([delivery.delivery_id for delivery in event.deliveries])
            try:
                outcome = outcome_of(event.state)
            except BusError as error:
                self._answer_failed(event.deliveries, error, unanswered)
                continue
            if isinstance(outcome, Complete):
                completed += event.deliveries
            else:
                await self._settle_as(event.deliveries, outcome, unanswered)
        if completed:
            await self._settle_as(completed, _COMPLETE, unanswered)

    def _join(self, event: DispositionReceived, state: TransactionalState) -> None:
        """Let settlements join their transaction (AMQP 1.0 §4.4.2); the commit makes them."""
        unanswered = set() if event.settled else {each.delivery_id for each in event.deliveries}
        locks = [each.parcel for each in event.deliveries]
        try:
            outcome = outcome_of(state.outcome)
            joining = self._transactions.settle(state.txn_id, self.sub_queue, locks, outcome)  # type: ignore[arg-type]  # our own parcels
        except BusError as error:
            self._transactions.fail(state.txn_id, error)
            self._answer_failed(event.deliveries, error, unanswered)
            return
        mirrored = TransactionalState(state.txn_id, answer_state(outcome))
        self._outlet.spawn(self._confirm(joining, event.deliveries, mirrored, unanswered))

    async def _confirm(
        self,
        joining: "asyncio.Task[None]",
        deliveries: list[OutgoingDelivery],
        mirrored: TransactionalState,
        unanswered: set[int],
    ) -> None:
        """Answer settlements when they have joined their transaction, or could not."""
        try:
            await joining
        except BusError as error:
            self._answer_failed(deliveries, error, unanswered)
        else:
            waiting = [each for each in deliveries if each.delivery_id in unanswered]
            self.link.settle_sent(waiting, mirrored)
        self._outlet.flush_soon()

    async def _settle_as(
        self, deliveries: list[OutgoingDelivery], outcome: Outcome, unanswered: set[int]
    ) -> None:
        """Settle deliveries in one way and answer those whose client waits for it."""
        locks = [delivery.parcel for delivery in deliveries]
        failures = await settle(self.sub_queue, locks, outcome, self._clock)  # type: ignore[arg-type]  # our own parcels
        if not unanswered:
            return
        good = [each for each in deliveries if each.delivery_id in unanswered]
        if failures:
            for each in good:
                failure = failures.get(each.parcel.sequence)  # type: ignore[attr-defined]  # our own parcels
                if failure is not None:
                    self._answer_failed([each], failure, unanswered)
            good = [each for each in good if each.parcel.sequence not in failures]  # type: ignore[attr-defined]  # our own parcels
        self.link.settle_sent(good, answer_state(outcome))

    def _answer_failed(
        self, deliveries: Iterable[OutgoingDelivery], error: BusError, unanswered: set[int]
    ) -> None:
        waiting = [each for each in deliveries if each.delivery_id in unanswered]
        self.link.settle_sent(waiting, rejected(error, self._clock.now()))
