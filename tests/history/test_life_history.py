"""Any history of entities that are made, changed, closed, forgotten and made again, with messages.

What a status forbids is refused and changes nothing; what is said of an entity holds from then on,
also after a restart; whoever has a link is told; what nobody uses goes when it may, and all that it
held goes with it: whatever has its name afterwards begins empty.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.receive import ReceiveMode, check_open_for_receive
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.update import update
from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import (
    BusError,
    EntityExists,
    EntityNotFound,
    InvalidOperation,
    StoreUnavailable,
)
from bendybus.model.ids import SubQueue
from bendybus.model.tier import PremiumPartitioning, Tier, TierName
from tests.history.life_model import LifeModel, Traits
from tests.history.life_world import BATCHES, TOPIC, LifeWorld, Wish, path
from tests.history.queue_world import PLACE, WHICH
from tests.history.world import fewer_examples

# One queue is always there; one is in the file that every start reads; the rest come and go.
LASTING: Final = "orders"
DECLARED: Final = "brief"
SUBSCRIPTIONS: Final = ("all", "late")
PASSING: Final = (DECLARED, TOPIC, *map(path, SUBSCRIPTIONS))
LINKS_MAX: Final = 3

IDLE_MS: Final = 300_000
# Twice that is longer than an entity may be idle.
WHILE_SECONDS: Final = 200
USES: Final = ("send", "schedule", "update", "receive", "stay")
AS_DECLARED: Final = Traits(idle_ms=IDLE_MS)
# What can be said of a topic, too.
OF_TOPICS: Final = frozenset({"status", "life_ms", "idle_ms"})
# One that goes when it is idle would not last.
OF_THE_LASTING: Final = frozenset(Traits._fields) - {"idle_ms"}

CHOICES: Final[dict[str, Sequence[object]]] = {
    "status": [EntityStatus.ACTIVE, *EntityStatus],
    "lock_duration_ms": [5_000, 8_000],
    "delivery_count_max": [1, 2, 3],
    "life_ms": [None, 4_000, 30_000],
    "is_dead_lettered_on_expiry": [False, True],
    "idle_ms": [None, IDLE_MS, IDLE_MS, 2 * IDLE_MS],
}
Changes = dict[str, Any]
CHANGES: st.SearchStrategy[Changes] = st.lists(
    st.one_of(*(st.tuples(st.just(name), st.sampled_from(each)) for name, each in CHOICES.items())),
    min_size=1,
    max_size=3,
).map(dict)
TRAITS = st.builds(Traits, **{name: st.sampled_from(each) for name, each in CHOICES.items()})


class Link:
    """A receiver's link: it is told of changes, and then asks whether it may stay."""

    def __init__(self, model: LifeModel, sub_queue: ServedSubQueue) -> None:
        self.model = model
        self.ended: type[BusError] | None = None
        self._sub_queue = sub_queue
        sub_queue.queue.note_link(self._reconsider)

    def _reconsider(self) -> None:
        try:
            check_open_for_receive(self._sub_queue)
        except BusError as error:
            self.ended = type(error)

    def close(self) -> None:
        self._sub_queue.queue.note_link_gone(self._reconsider)


class LifeHistory(LifeWorld):
    """Entities of every kind, whatever may become of them."""

    destinations = (LASTING, DECLARED, TOPIC)
    is_partitioned: ClassVar[bool]

    def __init__(self) -> None:
        self.links: list[Link] = []
        super().__init__()

    def entities(self) -> Sequence[Queue]:
        return [Queue(DECLARED, self.queue_properties(AS_DECLARED))]

    def make_models(self) -> Sequence[LifeModel]:
        return [new_model(DECLARED, AS_DECLARED)]

    @initialize(
        lasting=TRAITS,
        topic=TRAITS,
        subscriptions=st.lists(TRAITS, max_size=2),
        batches=st.lists(BATCHES, min_size=1, max_size=3),
    )
    def begin(
        self,
        lasting: Traits,
        topic: Traits,
        subscriptions: list[Traits],
        batches: list[list[Wish]],
    ) -> None:
        """Most of what can happen can only happen to what is there."""
        self.make(LASTING, lasting._replace(idle_ms=None))
        self.make(TOPIC, topic)
        for name, traits in zip(SUBSCRIPTIONS, subscriptions, strict=False):
            self.make(path(name), traits)
        for which, batch in enumerate(batches):
            self.send(which, batch)

    # Making, changing, deleting

    @rule(which=WHICH, traits=TRAITS)
    def create(self, which: int, traits: Traits) -> None:
        self.make(PASSING[which % len(PASSING)], traits)

    def make(self, name: str, traits: Traits) -> None:
        if name == TOPIC:
            traits = Traits(**{each: getattr(traits, each) for each in OF_TOPICS})
        topic = self.models.get(TOPIC) if name.startswith(f"{TOPIC}/") else None
        refusal: type[BusError] | None = None
        if not self.are_all_online:
            refusal = StoreUnavailable
        elif name.startswith(f"{TOPIC}/") and topic is None:
            refusal = EntityNotFound
        elif name in self.models:
            refusal = EntityExists
        with self.expecting(refusal):
            entity = self.entity(name, traits)
            self.run(create(self.broker.catalog, entity, topic=TOPIC, now=self.clock.now()))
            model = new_model(name, traits)
            assert topic is None or isinstance(topic, LifeModel)
            model.topic = topic
            model.note_use(self.now)
            self.models[name] = model

    @rule(which=WHICH, changes=CHANGES)
    def update(self, which: int, changes: Changes) -> None:
        """Say something else of an entity, and of what it holds, from now on."""
        name = [LASTING, *PASSING][which % (1 + len(PASSING))]
        known = {LASTING: OF_THE_LASTING, TOPIC: OF_TOPICS}.get(name, CHOICES)
        changes = {each: value for each, value in changes.items() if each in known}
        refusal = self.why_not_changed(name)
        before = self.model_of(name).traits if name in self.models else Traits()
        traits = before._replace(**changes)
        with self.expecting(refusal):
            self.run(self.change_to(self.entity(name, traits)))
            self.model_of(name).change(traits)
            self.model_of(name).note_use(self.now)

    @rule(which=WHICH)
    def ask_for_the_impossible(self, which: int) -> None:
        """Ask for what is chosen at creation: nothing changes, and that was no use."""
        name = [LASTING, *PASSING][which % (1 + len(PASSING))]
        traits = Traits(status=EntityStatus.DISABLED, idle_ms=IDLE_MS)
        entity = self.entity(name, traits)
        if isinstance(entity, Topic):
            properties = replace(entity.properties, requires_duplicate_detection=True)
            entity = Topic(name, properties)
        elif isinstance(entity, Subscription):
            entity = replace(entity, properties=replace(entity.properties, requires_session=True))
        else:
            entity = Queue(name, replace(entity.properties, requires_session=True))
        with self.expecting(self.why_not_changed(name) or InvalidOperation):
            self.run(self.change_to(entity))

    @rule(which=WHICH)
    def delete(self, which: int) -> None:
        name = PASSING[which % len(PASSING)]
        with self.expecting(self.why_not_changed(name)):
            self.run(delete(self.broker.catalog, name))
            self.note_deleted(self.model_of(name))

    def why_not_changed(self, name: str) -> type[BusError] | None:
        if not self.are_all_online:
            return StoreUnavailable
        return None if name in self.models else EntityNotFound

    async def change_to(self, entity: Queue | Topic | Subscription) -> None:
        await update(self.broker.catalog, entity, topic=TOPIC, now=self.clock.now())

    # What seldom comes together by chance

    def bring_all_back(self) -> None:
        """While a store is away next to nothing changes."""
        if not self.are_all_online:
            self.switch_a_store(0)

    @rule(which=WHICH, changes=CHANGES, batch=BATCHES)
    def change_and_use(self, which: int, changes: Changes, batch: list[Wish]) -> None:
        """Let what comes next show what an update means."""
        self.bring_all_back()
        self.update(which, changes)
        self.send(which, batch)
        self.the_queues_hold_what_they_ought_to()
        self.receive(which, SubQueue.MAIN, ReceiveMode.PEEK_LOCK, [2])

    @rule(which=WHICH, traits=TRAITS, is_restarted=st.booleans())
    def replace_by_another(self, which: int, traits: Traits, is_restarted: bool) -> None:
        """Delete an entity, and make one of its name before the stores have forgotten the first."""
        self.bring_all_back()
        self.delete(which)
        if is_restarted:
            self.restart(is_clean=True)
        self.create(which, traits)

    @rule(which=st.integers(0, 2), status=st.sampled_from(EntityStatus))
    def close_before_a_message_comes(self, which: int, status: EntityStatus) -> None:
        """Let the time of a message come when nobody may send any more."""
        self.bring_all_back()
        self.schedule(which, Wish(None, 2_000, None))
        self.the_queues_hold_what_they_ought_to()
        self.update(which, {"status": status})
        self.wait(5, is_swept=True)

    @rule(which=WHICH, use=st.sampled_from(USES), is_swept=st.booleans())
    def use_after_a_while(self, which: int, use: str, is_swept: bool) -> None:
        """Use an entity once it has been idle for long, and wait until it would be gone by now."""
        self.bring_all_back()
        for name in [each for each in PASSING if each not in self.models]:
            self.make(name, AS_DECLARED)
        self.wait(WHILE_SECONDS, is_swept=is_swept)
        self.the_queues_hold_what_they_ought_to()
        match use:
            case "send":
                self.send(which, [Wish(None, None, None)])
            case "schedule":
                self.schedule(which, Wish(None, 250_000, None))
            case "update":
                self.update(which, {"idle_ms": IDLE_MS})
            case "receive":
                self.receive(which, SubQueue.DEAD_LETTER, ReceiveMode.PEEK_LOCK, [1])
            case _:
                self.come_to_stay(which, SubQueue.MAIN)
                self.wait(2 * WHILE_SECONDS, is_swept=is_swept)
                self.the_queues_hold_what_they_ought_to()
                self.leave()
        self.the_queues_hold_what_they_ought_to()
        self.wait(WHILE_SECONDS, is_swept=is_swept)

    # What is said of an entity, in the broker's words

    def entity(self, name: str, traits: Traits) -> Queue | Topic | Subscription:
        if name == TOPIC:
            return Topic(name, self.topic_properties(traits))
        if name.startswith(f"{TOPIC}/"):
            properties = SubscriptionProperties(**common(traits), **of_receivers(traits))
            return Subscription(name.rsplit("/", 1)[1], properties)
        return Queue(name, self.queue_properties(traits))

    def queue_properties(self, traits: Traits) -> QueueProperties:
        is_partitioned = self.is_partitioned
        return QueueProperties(
            **common(traits), **of_receivers(traits), enable_partitioning=is_partitioned
        )

    def topic_properties(self, traits: Traits) -> TopicProperties:
        return TopicProperties(**common(traits), enable_partitioning=self.is_partitioned)

    # Links that stay

    @rule(which=WHICH, place=PLACE)
    def come_to_stay(self, which: int, place: SubQueue) -> None:
        name = self.pick(which)
        if len(self.links) < LINKS_MAX and self.is_let_in(name, place):
            model = self.model_of(name)
            self.links.append(Link(model, self.served(name).sub_queues[place]))
            model.note_links(1, self.now)

    @rule()
    def leave(self) -> None:
        if self.links:
            self.end_link(self.links[0])

    def end_link(self, link: Link) -> None:
        link.close()
        self.links.remove(link)
        link.model.note_links(-1, self.now)

    # Restarts

    def note_ending(self, *, is_clean: bool) -> None:
        """What the file says holds again; all else is as it was, and the links are gone."""
        del is_clean
        self.links.clear()
        if DECLARED in self.models:
            self.model_of(DECLARED).change(AS_DECLARED)
        else:
            self.models[DECLARED] = new_model(DECLARED, AS_DECLARED)

    # What always holds

    def check_more(self) -> None:
        catalog = self.broker.catalog
        assert {queue.name for queue in catalog.queues()} == set(self.models)
        for model in self.lives:
            properties = catalog.record(model.name).messaging_entity.properties
            said = common(model.traits) | ({} if model.is_topic else of_receivers(model.traits))
            assert {name: getattr(properties, name) for name in said} == said
        for link in list(self.links):
            is_there = self.models.get(link.model.name) is link.model
            name = link.model.name
            assert link.ended == (self.why_not_received(name) if is_there else EntityNotFound)
            if link.ended is not None:
                self.end_link(link)


def new_model(name: str, traits: Traits) -> LifeModel:
    # What is published passes through a topic, and takes numbers along.
    model = LifeModel(name, traits.is_dead_lettered_on_expiry, has_gaps=name == TOPIC)
    model.is_topic = name == TOPIC
    model.change(traits)
    return model


def common(traits: Traits) -> Changes:
    return {
        "status": traits.status,
        "default_message_time_to_live": _duration(traits.life_ms),
        "auto_delete_on_idle": _duration(traits.idle_ms),
    }


def of_receivers(traits: Traits) -> Changes:
    return {
        "lock_duration": _duration(traits.lock_duration_ms),
        "max_delivery_count": traits.delivery_count_max,
        "dead_lettering_on_message_expiration": traits.is_dead_lettered_on_expiry,
    }


def _duration(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


class ConventionalLifeHistory(LifeHistory):
    """Conventional entities in two stores."""

    is_partitioned = False
    store_count = 2


class PartitionedLifeHistory(LifeHistory):
    """Entities of two fragments, over three stores of which each may be away."""

    tier = Tier(TierName.PREMIUM, PremiumPartitioning.ALWAYS)
    is_partitioned = True
    store_count = 3


TestConventionalLifeHistory = pytest.mark.spec("R4")(ConventionalLifeHistory.TestCase)
TestPartitionedLifeHistory = pytest.mark.spec("R7.1")(PartitionedLifeHistory.TestCase)
TestConventionalLifeHistory.settings = fewer_examples(12)
TestPartitionedLifeHistory.settings = fewer_examples(16)
