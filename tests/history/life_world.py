"""A world of entities that come and go: queues, and a topic with subscriptions.

Every step is taken as the doors of the broker take it: who may do it is asked first, and what is
refused must have changed nothing. Time passes as in a broker: every few seconds it looks who is
idle.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import rule

from bendybus.broker.deferred import receive_deferred
from bendybus.broker.receive import ReceiveMode, check_open_for_receive, check_status_for_receive
from bendybus.broker.removal import LOOK_SECONDS, Removal
from bendybus.broker.schedule import cancel, schedule
from bendybus.broker.send import group_by_fragment, send
from bendybus.model.entity import subscription_path
from bendybus.model.errors import (
    BusError,
    EntityDisabled,
    EntityNotFound,
    MessageNotFound,
    StoreUnavailable,
)
from bendybus.model.ids import FragmentIndex, Instant, SubQueue, fragment_of
from bendybus.model.message import Message, MessageState
from bendybus.model.outcome import Defer, Outcome
from bendybus.store.checksum import CHECKSUM_SIZE
from tests.history.life_model import LifeModel
from tests.history.queue_model import Expected
from tests.history.queue_world import (
    COUNTS,
    MODES,
    OUTCOMES,
    PICKS,
    PLACE,
    WHICH,
    Counts,
    QueueWorld,
)
from tests.history.set_aside_model import sent

TOPIC: Final = "news"
NUMBERS_REMEMBERED: Final = 20


def path(subscription: str) -> str:
    return subscription_path(TOPIC, subscription)


class Wish(NamedTuple):
    """A message that somebody wants to send."""

    key: str | None
    delay_ms: int | None
    time_to_live_ms: int | None


WISHES = st.builds(
    Wish,
    st.sampled_from([None, "red", "green"]),
    st.sampled_from([None, None, 6_000, 400_000]),
    st.sampled_from([None, None, 3_000]),
)
BATCHES = st.lists(WISHES, min_size=1, max_size=3)


class LifeWorld(QueueWorld):
    """Entities whose status, properties and whole life others decide about."""

    # What messages can be sent to, whether it is there or not.
    destinations: tuple[str, ...]
    removal: Removal

    def __init__(self) -> None:
        # Subscriptions that are gone, but whose messages are still in the stores.
        self.remains: list[LifeModel] = []
        # Sequence numbers that somebody was told, or has deferred.
        self.scheduled: list[tuple[str, int]] = []
        self.deferred: list[tuple[str, SubQueue, int]] = []
        self.next_look = 0
        super().__init__()

    async def open(self) -> None:
        await super().open()
        await self.looked_after()
        for model in self.lives:
            model.begin_anew(self.now)
        self.removal = Removal(self.broker.namespaces, self.clock)
        await self.look()
        self.next_look = self.now + round(LOOK_SECONDS * 1000)

    def model_of(self, name: str) -> LifeModel:
        model = self.models[name]
        assert isinstance(model, LifeModel)
        return model

    @property
    def lives(self) -> Sequence[LifeModel]:
        """Every entity that is there; a topic before its subscriptions."""
        return [self.model_of(name) for name in self.models]

    def pick(self, which: int) -> str:
        names = [model.name for model in self.lives if not model.is_topic]
        return names[which % len(names)]

    # Refusals

    @contextmanager
    def expecting(self, refusal: type[BusError] | None) -> Iterator[None]:
        """Let a step be refused in this way, or not at all."""
        raised: type[BusError] | None = None
        try:
            yield
        except BusError as error:
            raised = type(error)
        assert raised is refusal

    def why_not_sent(self, name: str) -> type[BusError] | None:
        if name not in self.models:
            return EntityNotFound
        return None if self.model_of(name).takes_messages else EntityDisabled

    def why_not_received(self, name: str) -> type[BusError] | None:
        if name not in self.models:
            return EntityNotFound
        return None if self.model_of(name).gives_messages else EntityDisabled

    def visit(self, name: str) -> None:
        """Come with a link, and leave: an entity was used."""
        queue = self.served(name)
        queue.note_link(unheard)
        queue.note_link_gone(unheard)
        self.model_of(name).note_use(self.now)

    def is_let_in(self, name: str, place: SubQueue, *, is_looking: bool = False) -> bool:
        """Ask as every door does whether one may receive."""
        refusal = self.why_not_received(name)
        with self.expecting(refusal):
            sub_queue = self.served(name).sub_queues[place]
            if is_looking:
                check_status_for_receive(sub_queue, may_forward=True)
            else:
                check_open_for_receive(sub_queue)
            self.visit(name)
        return refusal is None

    # Sending, at once and later

    @rule(which=WHICH, batch=BATCHES)
    def send(self, which: int, batch: list[Wish]) -> None:
        name = self.destinations[which % len(self.destinations)]
        refusal = self.why_not_sent(name)
        if refusal is EntityNotFound:
            with self.expecting(refusal):
                self.served(name)
            return
        messages = [self.message(wish) for wish in batch]
        for fragment, indices in group_by_fragment(self.served(name), messages).items():
            group = [messages[at] for at in indices]
            is_kept = self.is_any_online(name, fragment)
            with self.expecting(refusal or (None if is_kept else StoreUnavailable)):
                self.run(send(self.served(name), group, fragment, self.clock))
                self.note_sent(name, group, fragment)

    @rule(which=WHICH, wish=WISHES)
    def schedule(self, which: int, wish: Wish) -> None:
        """Schedule by the verb that tells the number."""
        name = self.destinations[which % len(self.destinations)]
        if name not in self.models:
            return
        message = self.message(wish._replace(delay_ms=wish.delay_ms or 2_000))
        [fragment] = group_by_fragment(self.served(name), [message])
        is_kept = self.is_any_online(name, fragment)
        refusal = self.why_not_sent(name) or (None if is_kept else StoreUnavailable)
        with self.expecting(refusal):
            [number] = self.run(schedule(self.served(name), [message], self.clock))
            self.note_sent(name, [message], fragment)
            self.scheduled.append((name, number))
            del self.scheduled[:-NUMBERS_REMEMBERED]

    @rule(pick=st.integers(0, NUMBERS_REMEMBERED))
    def cancel(self, pick: int) -> None:
        """Take back what is scheduled; perhaps that was in an entity of the name that is gone."""
        if not self.scheduled:
            return
        name, number = self.scheduled[-1 - pick % len(self.scheduled)]
        refusal = self.why_not_sent(name)
        if refusal is None and not self.is_online(name, fragment_of(number)):
            refusal = StoreUnavailable
        if refusal is None and not self.model_of(name).cancel([number], self.now):
            refusal = MessageNotFound
        with self.expecting(refusal):
            queue = self.served(name)
            self.visit(name)
            self.run(cancel(queue, [number], self.clock))

    def message(self, wish: Wish) -> Message:
        scheduled_at = None if wish.delay_ms is None else Instant(self.now + wish.delay_ms)
        return Message(
            self.new_content(),
            partition_key=wish.key,
            time_to_live_ms=wish.time_to_live_ms,
            scheduled_at=scheduled_at,
        )

    def note_sent(self, name: str, group: list[Message], fragment: FragmentIndex | None) -> None:
        model = self.model_of(name)
        model.note_use(self.now)
        for message in group:
            life = model.life_of(message.time_to_live_ms)
            expected = sent(message, life, self.now, fragment)
            if model.is_topic and expected.state is not MessageState.SCHEDULED:
                self.note_published(model, expected, life)
            else:
                model.add(expected)

    def note_published(self, topic: LifeModel, message: Expected, life_ms: int | None) -> None:
        """Note a copy for each subscription that is not closed itself."""
        for model in self.lives:
            if model.topic is topic and model.takes_messages:
                life = model.life_of(life_ms)
                model.add(
                    Expected(
                        message.content,
                        message.key,
                        self.now,
                        None if life is None else self.now + life,
                        fragment=message.fragment,
                    )
                )

    # Receiving and settling

    @rule(which=WHICH, place=PLACE, mode=MODES, counts=st.lists(COUNTS, min_size=1, max_size=2))
    def receive(self, which: int, place: SubQueue, mode: ReceiveMode, counts: list[int]) -> None:
        if self.is_let_in(self.pick(which), place):
            super().receive(which, place, mode, counts)

    @rule(which=WHICH, place=PLACE, count=COUNTS)
    def browse(self, which: int, place: SubQueue, count: int) -> None:
        if self.is_let_in(self.pick(which), place, is_looking=True):
            super().browse(which, place, count)

    @rule(picks=PICKS, outcome=st.one_of(OUTCOMES, st.just(Defer())))
    def settle(self, picks: list[int], outcome: Outcome) -> None:
        """Settle whatever the status: what a receiver holds it may finish."""
        if not self.is_still_there(picks):
            return
        name, place, locks = self.pick_locks(picks)
        super().settle(picks, outcome)
        if isinstance(outcome, Defer):
            self.deferred += [(name, place, lock.sequence) for lock in locks]
            del self.deferred[:-NUMBERS_REMEMBERED]

    @rule(pick=PICKS)
    def renew(self, pick: list[int]) -> None:
        if self.is_still_there(pick):
            super().renew(pick)

    def is_still_there(self, picks: list[int]) -> bool:
        """Say whether there is, perhaps again, an entity of the name that locks came from."""
        if not self.tokens:
            return False
        name, *_ = self.pick_locks(picks)
        with self.expecting(None if name in self.models else EntityNotFound):
            self.served(name)
            self.visit(name)
        return name in self.models

    @rule(pick=st.integers(0, NUMBERS_REMEMBERED), mode=MODES)
    def receive_deferred(self, pick: int, mode: ReceiveMode) -> None:
        if not self.deferred:
            return
        name, place, number = self.deferred[-1 - pick % len(self.deferred)]
        if not self.is_let_in(name, place):
            return
        model = self.model_of(name)
        refusal: type[BusError] | None = None
        if not self.is_online(name, fragment_of(number)):
            refusal = StoreUnavailable
        elif not model.are_deferred(place, [number]):
            refusal = MessageNotFound
        with self.expecting(refusal):
            sub_queue = self.served(name).sub_queues[place]
            returned = self.run(receive_deferred(sub_queue, [number], mode, self.clock))
            is_removed = mode is ReceiveMode.RECEIVE_AND_DELETE
            if not is_removed:
                self.remember(name, place, returned)
            model.receive_deferred(place, returned, self.now, is_removed=is_removed)

    # Time

    @rule(seconds=st.sampled_from([1, 4, 5, 20, 150, 295, 300]), is_swept=st.booleans())
    def wait(self, seconds: int, is_swept: bool) -> None:
        """Let time pass, and let the broker look who is idle whenever it does."""
        until = self.now + seconds * 1000
        self.run(self.look_until(until))
        self.clock.advance((until - self.now) / 1000)
        if is_swept:
            self.sweep()

    async def look_until(self, until: int) -> None:
        while self.next_look <= until:
            self.clock.advance((self.next_look - self.now) / 1000)
            self.next_look += round(LOOK_SECONDS * 1000)
            await self.look()

    async def look(self) -> None:
        """Look once; note who is gone."""
        await self.broker.namespaces.records.agree()
        await self.removal.look()
        for model in self.lives:
            if model.name not in self.models:
                continue  # It went with its topic.
            if self.broker.catalog.has(model.name):
                is_overdue = self.are_all_online and model.must_have_gone(self.now)
                assert not is_overdue, f"{model.name} is idle, and has not gone"
            else:
                assert model.may_go(self.now), f"{model.name} has gone, and was not idle"
                self.note_deleted(model)
        if self.are_all_online:
            self.remains.clear()

    def note_deleted(self, model: LifeModel) -> None:
        """Note that an entity is gone, and what belongs to it."""
        del self.models[model.name]
        if model.topic is not None:
            self.remains.append(model)
        for each in self.lives:
            if each.topic is model:
                self.note_deleted(each)

    def note_swept(self) -> None:
        due = [
            (model, each)
            for model in self.lives
            for each in model.messages.values()
            if each.state is MessageState.SCHEDULED
            and each.enqueued_at <= self.now
            and self.is_message_online(model.name, each)
        ]
        super().note_swept()
        for model, each in sorted(due, key=lambda due: (due[1].enqueued_at, due[1].sequence or 0)):
            model.note_use(self.now)
            if model.is_topic:
                del model.messages[each.content]
                life = None if each.expires_at is None else each.expires_at - each.enqueued_at
                self.note_published(model, each, life)

    # What always holds

    def check_counts(self, name: str, place: SubQueue, found: Counts) -> None:
        """Compare what is counted; a topic counts the bytes of its subscriptions, each once."""
        model = self.model_of(name)
        several = [model, *(each for each in (*self.lives, *self.remains) if each.topic is model)]
        for fragment, counts in found.items():
            held = [each for each in model.messages.values() if each.fragment == fragment]
            assert counts.messages == sum(each.place is place for each in held)
            if place is SubQueue.MAIN and model.topic is None:
                contents = {
                    each.content
                    for one in several
                    for each in one.messages.values()
                    if each.fragment == fragment
                }
                assert counts.bytes == sum(len(each) + CHECKSUM_SIZE for each in contents)


def unheard() -> None:
    """Whoever only comes by need not be told of changes."""
