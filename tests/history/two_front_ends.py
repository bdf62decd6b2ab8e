"""Two brokers over the same stores: every step is taken at one of them, and the model is the same.

What one tells the other arrives, sooner or later; here it has arrived before the next step. That it
may come late, or never, is for the tests of front ends.
"""

import asyncio
from typing import Final

from hypothesis import strategies as st
from hypothesis.stateful import rule

from bendybus.testing.local_broker import LocalBroker
from tests.history.queue_world import QueueWorld
from tests.history.world import POLL_SECONDS, is_looked_after

SWEEPS: Final = 3


class TwoFrontEnds(QueueWorld):
    """Put before a history, it lets the history happen at two front ends."""

    brokers: list[LocalBroker]

    def __init__(self) -> None:
        super().__init__()
        # What one sweep makes active, under a new number, the next may find expired at once.
        for model in self.models.values():
            model.has_gaps = True

    async def open(self) -> None:
        await super().open()
        first = self.broker
        await super().open()
        self.brokers = [first, self.broker]

    @property
    def is_bound(self) -> bool:
        """Whether something goes on at this front end that the history will come back to."""
        return any(getattr(self, name, None) for name in ("staying", "waiter", "cached"))

    @rule()
    def walk_over(self) -> None:
        """Go on at the other front end."""
        if not self.is_bound:
            first, second = self.brokers
            self.broker = second if self.broker is first else first
            self.follow(self.broker)
            self.note_switched()

    def follow(self, broker: LocalBroker) -> None:
        """Let a second be over: within one, a front end has what was changed at the other."""
        self.run(broker.namespaces.records.following.look())

    @rule()
    def begin_the_other_anew(self) -> None:
        """Let the front end end at which the history is not, and another take its place."""
        if self.are_all_online:
            self.run(self.replace_the_other())

    async def replace_the_other(self) -> None:
        stays = self.broker
        [ends] = [broker for broker in self.brokers if broker is not stays]
        for store in ends.stores:
            await store.close()
        await super().open()
        self.brokers, self.broker = [stays, self.broker], stays
        await self.looked_after()

    async def looked_after(self) -> None:
        """Wait until somebody looks after every store that is there."""
        while True:
            stores = zip(*(broker.stores for broker in self.brokers), strict=True)
            if all(any(map(is_looked_after, both)) for both in stores):
                return
            await asyncio.sleep(POLL_SECONDS)

    @rule()
    def sweep(self) -> None:
        """Sweep at both: one looks after the stores, and each has noted something itself.

        And again, until nothing is due: what one has made active has perhaps expired, too.
        """
        for broker in self.brokers:
            # What comes due goes by its rules.
            self.follow(broker)
        for broker in self.brokers * SWEEPS:
            self.run(broker.sweep.sweep_all())
        self.run(self.hear())
        for _ in range(SWEEPS):
            self.note_swept()

    @rule(number=st.integers(0, 2))
    def switch_a_store(self, number: int) -> None:
        """Take a store away from both, or bring back the one that is away."""
        away = [store for store in self.broker.stores if not store.is_online]
        for broker in self.brokers:
            for store in [each for each in broker.stores if not each.is_online]:
                self.run(store.bring_online())
            if not away:
                self.run(broker.stores[number % self.store_count].take_offline("a drill"))
        self.run(self.looked_after())
        self.note_switched()

    def come_to_rest(self) -> None:
        self.run(self.hear())
        super().come_to_rest()

    async def hear(self) -> None:
        """Let each hear of everything that happened at the other."""
        for broker in self.brokers:
            for places in broker.namespaces.holdings.places:
                for sub_queue, source in places.values():
                    sub_queue.note_heard(source)
