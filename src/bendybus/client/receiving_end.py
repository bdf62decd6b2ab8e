"""Our end of a link on which we receive: credit, what has come, and settling it."""

from collections import deque
from typing import TypeAlias

from bendybus.amqp.deliveries import consecutive_ranges
from bendybus.amqp.events import TransferReceived
from bendybus.amqp.outcomes import Released
from bendybus.amqp.session import AmqpLink
from bendybus.client.answers import Answers
from bendybus.client.link_end import LinkEnd

Settling: TypeAlias = dict[int, tuple[Answers, int]]
"""By delivery id, where the broker's word on a settlement goes. One for all links of a session,
because a disposition does not name a link."""


class ReceivingEnd(LinkEnd):
    """Keeps deliveries until they are taken, never more than was asked for."""

    def __init__(self, link: AmqpLink, prefetch: int, settling: Settling) -> None:
        super().__init__(link)
        self.arrived: deque[TransferReceived] = deque()
        self._prefetch = prefetch
        self._settling = settling

    def take_transfer(self, event: TransferReceived) -> None:
        """Keep a delivery."""
        self.arrived.append(event)

    def ask(self, count: int) -> None:
        """Let the broker send, so that `count` will have come but not been taken."""
        wanted = count - len(self.arrived)
        if wanted > max(0, self.link.credit):
            self.link.grant(wanted)

    def refill(self) -> None:
        """Ask for as many as are to be fetched ahead, once half of them are used."""
        if 2 * (max(0, self.link.credit) + len(self.arrived)) <= self._prefetch:
            self.ask(self._prefetch)

    def ask_no_more(self) -> None:
        """Ask for what is at hand right now, and take the rest of the credit back."""
        self.link.grant(max(0, self.link.credit), drain=True)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing more will come unless we ask."""
        return self.link.credit <= 0

    def take(self, count: int) -> list[TransferReceived]:
        """Return deliveries that have come, the oldest first."""
        arrived = self.arrived
        return [arrived.popleft() for _ in range(min(count, len(arrived)))]

    def settle(self, ids: list[int], answers: Answers, indices: list[int], state: object) -> None:
        """Tell the broker what became of deliveries; its answers go to `answers`."""
        for delivery_id, index in zip(ids, indices, strict=True):
            self._settling[delivery_id] = (answers, index)
            answers.note_tried(index)
        for first, last in consecutive_ranges(ids):
            self.link.settle(first, last, state, settled=False)

    def release(self) -> None:
        """Give back what came and was not taken; it is not counted as delivered."""
        ids = [event.delivery_id for event in self.arrived if not event.settled]
        self.arrived.clear()
        for first, last in consecutive_ranges(ids):
            self.link.settle(first, last, Released(), settled=True)
