"""Any history of queues that forward: every message arrives once, in its order, or waits (R6)."""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.update import update
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import ArgumentInvalid, StoreUnavailable
from bendybus.model.ids import FragmentIndex, SubQueue
from bendybus.model.message import Message, StoredMessage
from tests.history.dying_stores import DyingStores
from tests.history.forwarding_world import ForwardingWorld, Outbox, hops_of
from tests.history.queue_model import DELIVERY_COUNT_MAX, LOCK_DURATION_MS, Expected, QueueModel
from tests.history.queue_world import PLACE, WHICH, look_at
from tests.history.world import fewer_examples

# Two hops to the orders; the dead letters of those go to the failures; and a ring without an end.
FORWARDED: Final = {"inbox": "stage", "stage": "orders", "there": "back", "back": "there"}
DEAD_LETTERS_FORWARDED: Final = {"orders": "failures"}

TOO_OFTEN: Final = "MaxTransferHopCountExceeded"

KEYS = st.sampled_from([None, "red", "green"])
TIMES_TO_LIVE_MS = st.sampled_from([None, None, 8_000])
BATCHES = st.lists(st.tuples(KEYS, TIMES_TO_LIVE_MS), min_size=1, max_size=4)
Batch = list[tuple[str | None, int | None]]


class ForwardingHistory(ForwardingWorld):
    """Some queues that are linked, and stores between them that come and go."""

    names: ClassVar[tuple[str, ...]]
    partitioned: ClassVar[frozenset[str]]

    def __init__(self) -> None:
        # Whatever the first start declares stays, and so do the changes that come later.
        self.is_declared = False
        self.ways: dict[Outbox, str | None] = {
            Outbox(name, place): to
            for place, ways in (
                (SubQueue.MAIN, FORWARDED),
                (SubQueue.DEAD_LETTER, DEAD_LETTERS_FORWARDED),
            )
            for name, to in ways.items()
        }
        super().__init__()

    def entities(self) -> Sequence[Queue]:
        if self.is_declared:
            return []
        self.is_declared = True
        return list(map(self.queue, self.names))

    def queue(self, name: str) -> Queue:
        return Queue(
            name,
            QueueProperties(
                lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
                max_delivery_count=DELIVERY_COUNT_MAX,
                dead_lettering_on_message_expiration=True,
                enable_partitioning=name in self.partitioned,
                forward_to=self.forwards_to(name, SubQueue.MAIN),
                forward_dead_lettered_messages_to=self.forwards_to(name, SubQueue.DEAD_LETTER),
            ),
        )

    def forwards_to(self, name: str, place: SubQueue) -> str | None:
        return self.ways.get(Outbox(name, place))

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

    # Going another way

    @rule(which=WHICH, place=PLACE, to=st.none() | WHICH)
    def send_elsewhere(self, which: int, place: SubQueue, to: int | None) -> None:
        """Let a queue forward to another from now on, or no more; what is there goes, too."""
        outbox = Outbox(self.pick(which), place)
        if self.can_leave(outbox):
            self.change_way(outbox, None if to is None else self.pick(to))

    def can_leave(self, outbox: Outbox) -> bool:
        """Say whether all that is there and will expire would leave at once.

        Whether what stays for a while expires there, or where it goes, is nobody's promise.
        """
        self.sweep()
        self.come_to_rest()
        held = self.models[outbox.name].held_in(outbox.place)
        return not any(each.expires_at and each.nonce for each in held)

    def change_way(self, outbox: Outbox, to: str | None) -> None:
        """Change where a queue forwards to, if it can be."""
        before, self.ways[outbox] = self.ways.get(outbox), to
        try:
            queue = self.queue(outbox.name)
            self.run(update(self.broker.catalog, queue, now=self.clock.now()))
        except ArgumentInvalid:
            assert to == outbox.name, "only to itself it cannot forward"
            self.ways[outbox] = before
        except StoreUnavailable:
            assert not self.are_all_online
            self.ways[outbox] = before

    # Dying on the way

    @rule(which=WHICH, batch=BATCHES, calls=st.integers(0, 12))
    def die_on_the_way(self, which: int, batch: Batch, calls: int) -> None:
        """Send, and let the broker die after so many calls to its stores, whatever they are."""
        dying = DyingStores(self.broker.stores)
        self.send(which, batch)
        self.run(dying.live_on(calls, self.at_rest()))
        self.restart(is_clean=False)

    @rule(which=WHICH, batch=BATCHES, calls=st.integers(0, 12), to=st.none() | WHICH)
    def die_and_send_elsewhere(self, which: int, batch: Batch, calls: int, to: int | None) -> None:
        """Die on the way, and go another before anybody takes up what was cut off."""
        outbox = Outbox(self.pick(which), SubQueue.MAIN)
        if not self.are_all_online or not self.can_leave(outbox):
            return
        before = dict(self.ways)
        dying = DyingStores(self.broker.stores)
        self.send(which, batch)
        self.run(dying.live_on(calls, self.at_rest()))
        self.is_forwarding_at_once = False
        self.restart(is_clean=False)
        self.is_forwarding_at_once = True
        self.change_way(outbox, None if to is None else self.pick(to))
        after, self.ways = self.ways, before
        self.note_where_all_are()
        self.ways = after
        self.run(self.begin_forwarding())

    def note_where_all_are(self) -> None:
        """Take messages on in the models, as far as each has come, by the ways of before."""
        farthest: dict[bytes, StoredMessage] = {}
        for name in self.models:
            for place in self.places:
                for message in self.run(look_at(self.served(name).sub_queues[place])):
                    # One that has arrived may still be where it came from.
                    others = [message, farthest.get(message.content, message)]
                    farthest[message.content] = max(others, key=lambda each: hops_of(each.marks))
        while any(
            self.note_forwarded(each, self.not_beyond(each, farthest)) for each in self.outboxes()
        ):
            continue

    def not_beyond(
        self, outbox: Outbox, farthest: dict[bytes, StoredMessage]
    ) -> list[StoredMessage]:
        """Return those that the model has in an outbox and that have come no further."""
        held = self.models[outbox.name].held_in(outbox.place)
        found = [(each, farthest.get(each.content)) for each in held]
        return [
            message
            for expected, message in found
            if message is not None
            and hops_of(message.marks) == hops_of(expected.marks)
            and not is_stopped(message)
        ]


def is_stopped(message: StoredMessage) -> bool:
    """Say whether a message was forwarded too often, and may not go on."""
    return message.marks is not None and message.marks.dead_letter_reason == TOO_OFTEN


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
