"""Any history of queues that forward: every message arrives once, in its order, or waits (R6)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.send import group_by_fragment, send
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import StoreUnavailable
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from tests.history.dying_stores import DyingStores
from tests.history.forwarding_world import ForwardingWorld
from tests.history.queue_model import DELIVERY_COUNT_MAX, LOCK_DURATION_MS, Expected, QueueModel
from tests.history.queue_world import WHICH
from tests.history.world import fewer_examples

# Two hops to the orders; the dead letters of those go to the failures; and a ring without an end.
FORWARDED: Final = {"inbox": "stage", "stage": "orders", "there": "back", "back": "there"}
DEAD_LETTERS_FORWARDED: Final = {"orders": "failures"}

KEYS = st.sampled_from([None, "red", "green"])
TIMES_TO_LIVE_MS = st.sampled_from([None, None, 8_000])
BATCHES = st.lists(st.tuples(KEYS, TIMES_TO_LIVE_MS), min_size=1, max_size=4)
Batch = list[tuple[str | None, int | None]]


class ForwardingHistory(ForwardingWorld):
    """Some queues that are linked, and stores between them that come and go."""

    names: ClassVar[tuple[str, ...]]
    partitioned: ClassVar[frozenset[str]]

    def entities(self) -> Sequence[Queue]:
        return [
            Queue(
                name,
                QueueProperties(
                    lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
                    max_delivery_count=DELIVERY_COUNT_MAX,
                    dead_lettering_on_message_expiration=True,
                    enable_partitioning=name in self.partitioned,
                    forward_to=FORWARDED.get(name),
                    forward_dead_lettered_messages_to=DEAD_LETTERS_FORWARDED.get(name),
                ),
            )
            for name in self.names
        ]

    def make_models(self) -> Sequence[QueueModel]:
        return [
            QueueModel(name, is_dead_lettered_on_expiry=True, has_gaps=True) for name in self.names
        ]

    # Sending

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=4))
    def begin_with_messages(self, batches: list[Batch]) -> None:
        """Most of what can happen can only happen to a message."""
        for which, batch in enumerate(batches):
            self.send(which, batch)
            self.come_to_rest()

    @rule(which=WHICH, batch=BATCHES)
    def send(self, which: int, batch: Batch) -> None:
        name = self.pick(which)
        messages = [
            # Where a store is away a message may wait, and whether it expires there or where it
            # goes is nobody's promise.
            Message(
                self.new_content(),
                partition_key=key,
                time_to_live_ms=time_to_live if self.are_all_online else None,
            )
            for key, time_to_live in batch
        ]
        for fragment, indices in group_by_fragment(self.served(name), messages).items():
            self.send_group(name, [messages[at] for at in indices], fragment)

    def send_group(self, name: str, group: list[Message], fragment: FragmentIndex | None) -> None:
        try:
            self.run(send(self.served(name), group, fragment, self.clock))
        except StoreUnavailable:
            assert not self.are_all_online
            return
        for message in group:
            life = message.time_to_live_ms
            self.models[name].add(
                Expected(
                    message.content,
                    message.partition_key,
                    self.now,
                    None if life is None else self.now + life,
                    fragment=fragment,
                )
            )

    # Dying on the way

    @rule(which=WHICH, batch=BATCHES, calls=st.integers(0, 12))
    def die_on_the_way(self, which: int, batch: Batch, calls: int) -> None:
        """Send, and let the broker die after so many calls to its stores, whatever they are."""
        dying = DyingStores(self.broker.stores)
        self.send(which, batch)
        self.run(dying.live_on(calls, self.at_rest()))
        self.restart(is_clean=False)


class ConventionalForwardingHistory(ForwardingHistory):
    """Conventional queues in three stores."""

    names = ("inbox", "stage", "orders", "failures", "there", "back")
    partitioned = frozenset()
    store_count = 3


class PartitionedForwardingHistory(ForwardingHistory):
    """From a partitioned queue to a conventional one, and on to others that are partitioned."""

    names = ("inbox", "stage", "orders", "failures")
    partitioned = frozenset({"inbox", "orders", "failures"})
    store_count = 3


TestConventionalForwardingHistory = pytest.mark.spec("R6")(ConventionalForwardingHistory.TestCase)
TestPartitionedForwardingHistory = pytest.mark.spec("R6")(PartitionedForwardingHistory.TestCase)
TestConventionalForwardingHistory.settings = fewer_examples(10)
TestPartitionedForwardingHistory.settings = fewer_examples(20)
