"""Any history of a queue whose messages are deferred, scheduled, cancelled, repeated and purged."""

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.deferred import receive_deferred
from bendybus.broker.purge import PurgeWish, purge
from bendybus.broker.receive import ReceiveMode
from bendybus.broker.schedule import cancel, schedule
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import MessageNotFound, StoreUnavailable
from bendybus.model.ids import FragmentIndex, Instant, SubQueue, fragment_of
from bendybus.model.message import Message, MessageState
from bendybus.model.outcome import Defer
from tests.history.queue_model import DELIVERY_COUNT_MAX, LOCK_DURATION_MS
from tests.history.queue_world import CHANGES, MODES, PICKS, PLACE, QueueWorld, look_at
from tests.history.set_aside_model import SetAsideModel, sent
from tests.history.world import fewer_examples

QUEUE: Final = "orders"
WINDOW: Final = timedelta(seconds=20)
NUMBERS_REMEMBERED: Final = 30
NO_SUCH_COUNTER: Final = 1 << 40


class Wish(NamedTuple):
    """A message that somebody wants to send."""

    key: str | None
    message_id: str
    delay_ms: int | None
    time_to_live_ms: int | None


WISHES = st.builds(
    Wish,
    st.sampled_from([None, "red", "green"]),
    st.sampled_from(["", "", "a", "b", "c"]),
    st.sampled_from([None, None, -1_000, 2_000, 6_000]),
    st.sampled_from([None, None, 3_000]),
)
BATCHES = st.lists(WISHES, min_size=1, max_size=5)
DELAYS_MS = st.sampled_from([1, 2_000, 6_000])


class SetAsideHistory(QueueWorld):
    """One queue, and messages that are not simply the next."""

    properties: ClassVar[QueueProperties]

    def __init__(self) -> None:
        super().__init__()
        # Sequence numbers of messages that are or were scheduled, and of those deferred.
        self.scheduled: list[int] = []
        self.deferred: list[tuple[SubQueue, int]] = []

    def entities(self) -> Sequence[Queue]:
        return [Queue(QUEUE, self.properties)]

    def make_models(self) -> Sequence[SetAsideModel]:
        window = WINDOW.total_seconds() * 1000
        return [
            SetAsideModel(
                QUEUE,
                self.properties.dead_lettering_on_message_expiration,
                window_ms=round(window) if self.properties.requires_duplicate_detection else None,
            )
        ]

    @property
    def queue(self) -> ServedQueue:
        return self.served(QUEUE)

    @property
    def model(self) -> SetAsideModel:
        model = self.models[QUEUE]
        assert isinstance(model, SetAsideModel)
        return model

    # Sending, at once and later

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=3))
    def begin_with_messages(self, batches: list[list[Wish]]) -> None:
        """Most of what can happen can only happen to a message."""
        for batch in batches:
            self.send(batch)

    @rule(batch=BATCHES)
    def send(self, batch: list[Wish]) -> None:
        messages = [self.message(wish) for wish in batch]
        for fragment, indices in group_by_fragment(self.queue, messages).items():
            group = [messages[at] for at in indices]
            try:
                self.run(send(self.queue, group, fragment, self.clock))
            except StoreUnavailable:
                assert not self.is_any_online(QUEUE, fragment), "refused though it could be kept"
            else:
                self.note_sent(group, fragment)

    @rule(batch=BATCHES, delay_ms=DELAYS_MS)
    def schedule(self, batch: list[Wish], delay_ms: int) -> None:
        """Schedule by the verb that tells the numbers: each is stored or dropped, or none is."""
        messages = [self.message(wish._replace(delay_ms=delay_ms)) for wish in batch]
        groups = group_by_fragment(self.queue, messages)
        try:
            numbers = self.run(schedule(self.queue, messages, self.clock))
        except StoreUnavailable:
            assert not all(self.is_any_online(QUEUE, each) for each in groups), (
                "refused though it could be kept"
            )
            return
        assert all(self.is_any_online(QUEUE, each) for each in groups)
        for fragment, indices in groups.items():
            self.note_sent([messages[at] for at in indices], fragment)
        for number, message in zip(numbers, messages, strict=True):
            assert bool(number) == (message.content in self.model.messages)
        # The first look at a message must find it under the number that its sender was told.
        self.run(self.check_numbers(dict(zip(numbers, messages, strict=True))))
        self.scheduled += [number for number in numbers if number]
        del self.scheduled[:-NUMBERS_REMEMBERED]

    async def check_numbers(self, told: dict[int, Message]) -> None:
        shown = {message.sequence: message.content for message in await look_at(self.queue.main)}
        for number, message in told.items():
            assert not number or shown[number] == message.content

    def message(self, wish: Wish) -> Message:
        scheduled_at = None if wish.delay_ms is None else Instant(self.now + wish.delay_ms)
        return Message(
            self.new_content(),
            message_id=wish.message_id,
            partition_key=wish.key,
            time_to_live_ms=wish.time_to_live_ms,
            scheduled_at=scheduled_at,
        )

    def note_sent(self, group: list[Message], fragment: FragmentIndex | None) -> None:
        for message in group:
            if self.model.is_duplicate(message, self.now):
                continue
            self.model.add(sent(message, message.time_to_live_ms, self.now, fragment))

    @rule(picks=PICKS, is_invented=st.sampled_from([False, False, False, True]))
    def cancel(self, picks: list[int], is_invented: bool) -> None:
        """Take back scheduled messages, also by numbers that are used up or were never given."""
        if not self.scheduled:
            return
        numbers = {self.scheduled[-1 - pick % len(self.scheduled)] for pick in picks}
        if is_invented:
            numbers.add(max(numbers) + NO_SUCH_COUNTER)
        try:
            self.run(cancel(self.queue, sorted(numbers), self.clock))
        except StoreUnavailable:
            assert not self.are_online(numbers)
        except MessageNotFound:
            assert not self.model.cancel(numbers, self.now)
        else:
            assert self.are_online(numbers)
            assert self.model.cancel(numbers, self.now)

    def are_online(self, numbers: set[int]) -> bool:
        return all(self.is_online(QUEUE, fragment_of(number)) for number in numbers)

    # Deferring

    @rule(picks=PICKS, changes=CHANGES)
    def defer(self, picks: list[int], changes: bytes | None) -> None:
        if not self.tokens:
            return
        _, place, locks = self.pick_locks(picks)
        self.settle(picks, Defer(changes))
        self.deferred += [(place, lock.sequence) for lock in locks]
        del self.deferred[:-NUMBERS_REMEMBERED]

    @rule(place=PLACE, count=st.integers(1, 3))
    def receive_and_defer(self, place: SubQueue, count: int) -> None:
        self.receive(0, place, ReceiveMode.PEEK_LOCK, [count])
        self.defer(list(range(count)), None)

    @rule(picks=PICKS, mode=MODES)
    def receive_deferred(self, picks: list[int], mode: ReceiveMode) -> None:
        """Receive by sequence numbers of several fragments, also of messages long gone."""
        if not self.deferred:
            return
        chosen = [self.deferred[-1 - pick % len(self.deferred)] for pick in picks]
        place = chosen[0][0]
        numbers = list(dict.fromkeys(number for where, number in chosen if where is place))
        sub_queue = self.queue.sub_queues[place]
        try:
            returned = self.run(receive_deferred(sub_queue, numbers, mode, self.clock))
        except StoreUnavailable:
            assert not self.are_online(set(numbers))
        except MessageNotFound:
            assert not self.model.are_deferred(place, numbers)
        else:
            assert [message.sequence for message in returned] == numbers
            assert self.model.are_deferred(place, numbers)
            is_removed = mode is ReceiveMode.RECEIVE_AND_DELETE
            if not is_removed:
                self.remember(QUEUE, place, returned)
            self.model.receive_deferred(place, returned, self.now, is_removed=is_removed)

    # Purging

    @rule(
        place=PLACE,
        state=st.sampled_from([MessageState.ACTIVE, MessageState.DEFERRED, MessageState.SCHEDULED]),
        age_ms=st.sampled_from([-6_000, 0, 4_000]),
        count=st.sampled_from([1, 3, 100]),
    )
    def purge(self, place: SubQueue, state: MessageState, age_ms: int, count: int) -> None:
        until = Instant(self.now - age_ms)
        purgeable = [
            each
            for each in self.model.purgeable(place, state, until)
            if self.is_message_online(QUEUE, each)
        ]
        sub_queue = self.queue.sub_queues[place]
        try:
            deleted = self.run(purge(sub_queue, PurgeWish(count, until, state), self.clock))
        except StoreUnavailable:
            assert not purgeable
            assert not self.queue.is_available
            return
        assert deleted == min(count, len(purgeable))
        kept = {message.content for message in self.run(look_at(sub_queue))}
        assert self.model.purge(purgeable, kept) == deleted


class ConventionalSetAsideHistory(SetAsideHistory):
    """A conventional queue with duplicate detection."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        dead_lettering_on_message_expiration=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=WINDOW,
    )
    store_count = 2


class PartitionedSetAsideHistory(SetAsideHistory):
    """A partitioned queue with duplicate detection: a keyless message's id is its key."""

    properties = QueueProperties(
        lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
        max_delivery_count=DELIVERY_COUNT_MAX,
        enable_partitioning=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=WINDOW,
    )
    store_count = 3


TestConventionalSetAsideHistory = pytest.mark.spec("R4")(ConventionalSetAsideHistory.TestCase)
TestPartitionedSetAsideHistory = pytest.mark.spec("R2.1")(PartitionedSetAsideHistory.TestCase)
TestConventionalSetAsideHistory.settings = fewer_examples(4)
TestPartitionedSetAsideHistory.settings = fewer_examples(6)
