"""Dead letters, and the run of a redrive, for tests of the verb."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from bendybus.broker.look import Stretch, extent_of
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.redrive import Redriven, RedriveWish, redrive
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.settle import settle
from bendybus.model.entity import (
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import Unauthorized
from bendybus.model.ids import COUNTER_BITS, SubQueue
from bendybus.model.message import Message, StoredMessage
from bendybus.model.outcome import DeadLetter
from bendybus.model.selection import Selection, condition_of, edit_of
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker
from tests.unit.broker.forwarding_queues import everything
from tests.unit.broker.topic_messages import send_notes

LIFE = timedelta(seconds=60)
ENTITIES: Sequence[Queue | Topic] = (
    Queue("orders", QueueProperties(default_message_time_to_live=LIFE)),
    Queue("parts", QueueProperties(default_message_time_to_live=LIFE, enable_partitioning=True)),
    Queue("ledgers", QueueProperties(requires_session=True)),
    Queue("once", QueueProperties(requires_duplicate_detection=True)),
    Queue("elsewhere"),
    Topic(
        "news",
        subscriptions=(
            Subscription("all", SubscriptionProperties(default_message_time_to_live=LIFE)),
            Subscription("others"),
        ),
    ),
    Topic(
        "feed",
        TopicProperties(enable_partitioning=True),
        subscriptions=(
            Subscription("all", SubscriptionProperties(default_message_time_to_live=LIFE)),
            Subscription("others"),
        ),
    ),
)
KINDS = ("orders", "parts", "news/Subscriptions/all", "feed/Subscriptions/all")


@dataclass
class Redriving:
    """A broker with dead letters, and what clients do to them."""

    broker: LocalBroker
    clock: ManualClock
    # What those who ask may not send to.
    closed: set[str] = field(default_factory=set)

    def queue(self, name: str) -> ServedQueue:
        return self.broker.queue(name)

    async def bury(
        self, name: str, notes: Sequence[Message], reason: str = "Rejected"
    ) -> list[StoredMessage]:
        """Send messages and dead-letter them; return what lies in the dead-letter queue then."""
        queue = self.queue(name)
        await send_notes(self.queue(name.partition("/")[0]), self.clock, *notes)
        receiver = Receiver(queue.main, ReceiveMode.PEEK_LOCK, self.clock)
        while held := await receiver.receive(500):
            outcome = DeadLetter(reason, "a test")
            locks = [message.lock for message in held]
            assert not await settle(queue.main, locks, outcome, self.clock)
        await receiver.close()
        return await self.dead(name)

    async def dead(self, name: str) -> list[StoredMessage]:
        return await everything(self.queue(name), SubQueue.DEAD_LETTER)

    async def alive(self, name: str) -> list[StoredMessage]:
        return await everything(self.queue(name))

    async def redrive(
        self,
        name: str,
        *,
        sub_queue: SubQueue = SubQueue.DEAD_LETTER,
        part: int = 1000,
        condition: str | None = None,
        edit: str | None = None,
        selection: Selection | None = None,
        **wish: Any,
    ) -> Redriven:
        """Go through all fragments as a client does; return the sum of all answers."""
        served = self.queue(name).sub_queues[sub_queue]
        chosen = selection or Selection()
        if condition is not None:
            chosen = replace(chosen, condition=condition_of(condition, uuid4))
        total = Redriven(0, 0, 0, 0, None, None)
        for fragment, last in enumerate((await extent_of(served)).last_sequences):
            at: int | None = fragment << COUNTER_BITS
            assert last is not None
            while at is not None and at <= last:
                asked = RedriveWish(
                    Stretch(at, last, part),
                    chosen,
                    None if edit is None else edit_of(edit, uuid4),
                    **wish,
                )
                some = await self.ask(name, asked, sub_queue)
                total = Redriven(
                    total.moved + some.moved,
                    total.looked_at + some.looked_at,
                    total.locked + some.locked,
                    total.refused + some.refused,
                    total.why or some.why,
                    None,
                )
                at = some.next_sequence
        return total

    async def ask(
        self, name: str, wish: RedriveWish, sub_queue: SubQueue = SubQueue.DEAD_LETTER
    ) -> Redriven:
        served = self.queue(name).sub_queues[sub_queue]
        return await redrive(served, wish, self.broker.catalog, self.clock, self._may_send)

    async def ask_for(self, name: str, first: int, last: int) -> Redriven:
        """Ask for all of a stretch."""
        return await self.ask(name, RedriveWish(Stretch(first, last, 1000), Selection()))

    def _may_send(self, path: str) -> None:
        if path in self.closed:
            raise Unauthorized.missing("Send", path)
