"""Any history of a topic: who gets which copy while rules change, and each content kept once."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from bendybus.broker.rules import add_rule, remove_rule
from bendybus.broker.send import group_by_fragment, send
from bendybus.model.entity import Subscription, SubscriptionProperties, Topic, TopicProperties
from bendybus.model.errors import EntityExists, EntityNotFound, StoreUnavailable
from bendybus.model.ids import FragmentIndex, Instant, SubQueue
from bendybus.model.message import Marks, Message, MessageState
from bendybus.store.checksum import CHECKSUM_SIZE
from tests.history.queue_model import (
    ANY_TEXT,
    DELIVERY_COUNT_MAX,
    LOCK_DURATION_MS,
    UNKNOWN,
    Expected,
    QueueModel,
)
from tests.history.queue_world import WHICH, QueueWorld
from tests.history.topic_rules import (
    RULES,
    KnownRule,
    Note,
    Verdict,
    changed_by,
    message_of,
    note_in,
)
from tests.history.world import fewer_examples

TOPIC: Final = "news"
SUBSCRIPTIONS: Final = ("first", "second", "third")
SHORT_LIFE_MS: Final = 10_000


class Wish(NamedTuple):
    """A message that somebody wants to publish."""

    note: Note
    key: str | None
    delay_ms: int
    time_to_live_ms: int | None


NOTES = st.builds(
    Note,
    st.sampled_from([None, "red", "blue"]),
    st.sampled_from([None, "big"]),
    st.sampled_from([None, 3, 7]),
)
WISHES = st.builds(
    Wish,
    NOTES,
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([0, 0, 0, 2_000]),
    st.sampled_from([None, None, 3_000]),
)
BATCHES = st.lists(WISHES, min_size=1, max_size=4)
KNOWN_RULES = st.sampled_from(RULES)


def path(name: str) -> str:
    return f"{TOPIC}/Subscriptions/{name}"


class TopicHistory(QueueWorld):
    """One topic with some subscriptions, whose rules come and go."""

    is_partitioned: ClassVar[bool]

    def __init__(self) -> None:
        # Whatever the first start declares stays, and so do the changes that come later.
        self.is_declared = False
        self.rules_held: dict[str, dict[str, KnownRule]] = {
            path(name): {"all": RULES[0]} for name in SUBSCRIPTIONS
        }
        self.notes: dict[bytes, Note] = {}
        self.lives: dict[bytes, int | None] = {}
        # Copies that an action has changed have contents of their own.
        self.changed: set[bytes] = set()
        super().__init__()

    def entities(self) -> Sequence[Topic]:
        if self.is_declared:
            return []
        self.is_declared = True
        subscriptions = tuple(
            Subscription(
                name,
                SubscriptionProperties(
                    lock_duration=timedelta(milliseconds=LOCK_DURATION_MS),
                    max_delivery_count=DELIVERY_COUNT_MAX,
                    dead_lettering_on_message_expiration=True,
                    default_message_time_to_live=self.default_life(path(name)),
                ),
                (RULES[0].rule,),
            )
            for name in SUBSCRIPTIONS
        )
        return [
            Topic(TOPIC, TopicProperties(enable_partitioning=self.is_partitioned), subscriptions)
        ]

    def default_life(self, name: str) -> timedelta | None:
        return timedelta(milliseconds=SHORT_LIFE_MS) if name == path("second") else None

    def make_models(self) -> Sequence[QueueModel]:
        topic = QueueModel(TOPIC, is_dead_lettered_on_expiry=False, has_gaps=True)
        return [
            topic,
            *(QueueModel(name, is_dead_lettered_on_expiry=True) for name in self.rules_held),
        ]

    # Publishing

    @initialize(batches=st.lists(BATCHES, min_size=1, max_size=3))
    def begin_with_messages(self, batches: list[list[Wish]]) -> None:
        """Most of what can happen can only happen to a message."""
        for batch in batches:
            self.publish(batch)

    @rule(batch=BATCHES)
    def publish(self, batch: list[Wish]) -> None:
        messages = [self.message(wish) for wish in batch]
        topic = self.served(TOPIC)
        for fragment, indices in group_by_fragment(topic, messages).items():
            group = [messages[at] for at in indices]
            try:
                self.run(send(topic, group, fragment, self.clock))
            except StoreUnavailable:
                assert not topic.is_available
                continue
            for message in group:
                self.note_sent(message, fragment)

    def message(self, wish: Wish) -> Message:
        message = message_of(wish.note, self.new_content())
        message.partition_key = wish.key
        message.time_to_live_ms = wish.time_to_live_ms
        if wish.delay_ms:
            message.scheduled_at = Instant(self.now + wish.delay_ms)
        self.notes[message.content] = wish.note
        self.lives[message.content] = wish.time_to_live_ms
        return message

    def note_sent(self, message: Message, fragment: FragmentIndex | None) -> None:
        begins_at = message.scheduled_at or self.now
        if begins_at == self.now:
            self.note_published(message.content, message.partition_key, fragment)
            return
        life = message.time_to_live_ms
        self.models[TOPIC].add(
            Expected(
                message.content,
                message.partition_key,
                begins_at,
                None if life is None else begins_at + life,
                fragment=fragment,
                state=MessageState.SCHEDULED,
            )
        )

    def note_published(self, content: bytes, key: str | None, fragment: int | None) -> None:
        """Ask the rules of each subscription what it gets."""
        note, body = note_in(content)
        for name, rules in self.rules_held.items():
            verdicts = {known: known.judge(note) for known in rules.values()}
            matched = [each for each, verdict in verdicts.items() if verdict is Verdict.LETS_IN]
            is_taken = any(known.change is None for known in matched)
            if is_taken:
                self.note_copy(name, content, key, fragment)
            elif Verdict.FAILS in verdicts.values():
                self.note_failed(name, content, key, fragment)
            for known in matched:
                if known.change is not None:
                    original = Message(content, partition_key=key)
                    copy = changed_by(known.rule, original, Instant(self.now)).content
                    assert note_in(copy) == (known.change(note), body)
                    self.changed.add(copy)
                    self.lives[copy] = self.lives[content]
                    self.note_copy(name, copy, key, fragment, Marks(enqueued_sequence=UNKNOWN))

    def note_copy(
        self,
        name: str,
        content: bytes,
        key: str | None,
        fragment: int | None,
        marks: Marks | None = None,
    ) -> None:
        default = self.default_life(name)
        lives = [self.lives[content], None if default is None else SHORT_LIFE_MS]
        life = min((each for each in lives if each is not None), default=None)
        self.models[name].add(
            Expected(
                content,
                key,
                self.now,
                None if life is None else self.now + life,
                fragment=fragment,
                marks=marks,
                # In which order the changed copies come among the others is not promised.
                order_group=object() if marks else None,
            )
        )

    def note_failed(self, name: str, content: bytes, key: str | None, fragment: int | None) -> None:
        marks = Marks(
            dead_letter_reason="FilterException",
            dead_letter_description=ANY_TEXT,
            dead_letter_source=name,
        )
        expected = Expected(content, key, self.now, None, fragment=fragment, marks=marks)
        expected.place = SubQueue.DEAD_LETTER
        self.models[name].add(expected)

    # Rules

    @rule(at=WHICH, known=KNOWN_RULES)
    def add_a_rule(self, at: int, known: KnownRule) -> None:
        name = path(SUBSCRIPTIONS[at % len(SUBSCRIPTIONS)])
        try:
            self.run(self.change_rules(name, known, is_added=True))
        except StoreUnavailable:
            assert not self.are_all_online
        except EntityExists:
            assert known.rule.name in self.rules_held[name]
        else:
            assert known.rule.name not in self.rules_held[name]
            self.rules_held[name][known.rule.name] = known

    @rule(at=WHICH, known=KNOWN_RULES)
    def remove_a_rule(self, at: int, known: KnownRule) -> None:
        name = path(SUBSCRIPTIONS[at % len(SUBSCRIPTIONS)])
        try:
            self.run(self.change_rules(name, known, is_added=False))
        except StoreUnavailable:
            assert not self.are_all_online
        except EntityNotFound:
            assert known.rule.name not in self.rules_held[name]
        else:
            del self.rules_held[name][known.rule.name]

    @rule(at=WHICH, chosen=st.lists(KNOWN_RULES, max_size=3))
    def replace_the_rules(self, at: int, chosen: list[KnownRule]) -> None:
        """Let other rules hold: with the first one gone a subscription begins to choose."""
        name = path(SUBSCRIPTIONS[at % len(SUBSCRIPTIONS)])
        for known in list(self.rules_held[name].values()):
            self.remove_a_rule(at, known)
        for known in chosen:
            self.add_a_rule(at, known)

    async def change_rules(self, name: str, known: KnownRule, *, is_added: bool) -> None:
        catalog = self.broker.catalog
        subscription = catalog.subscription(TOPIC, name.rsplit("/", 1)[1])
        if is_added:
            await add_rule(catalog, subscription, known.rule, now=self.clock.now())
        else:
            await remove_rule(catalog, subscription, known.rule.name, now=self.clock.now())

    # Time

    def note_swept(self) -> None:
        topic = self.models[TOPIC]
        due = [
            each
            for each in topic.messages.values()
            if each.enqueued_at <= self.now and self.is_message_online(TOPIC, each)
        ]
        super().note_swept()
        for each in sorted(due, key=lambda each: (each.enqueued_at, each.sequence or 0)):
            del topic.messages[each.content]
            self.note_published(each.content, each.key, each.fragment)

    # What always holds

    def check_bytes(self, count: int, held: list[Expected]) -> None:
        """A subscription's bytes are counted by its topic."""

    def check_more(self) -> None:
        self.check_copies_agree()
        self.run(self.check_bytes_of_topic())

    def check_copies_agree(self) -> None:
        """All copies of a message are in one fragment, and know it by one number."""
        places: dict[bytes, set[tuple[int | None, int | None]]] = defaultdict(set)
        for name in self.rules_held:
            for content, each in self.models[name].messages.items():
                if content not in self.changed:
                    places[content].add((each.fragment, each.first_sequence))
        assert all(len(several) == 1 for several in places.values())

    async def check_bytes_of_topic(self) -> None:
        """Each content is kept once, however many subscriptions hold it (D6)."""
        sources = [each for each in self.served(TOPIC).main.sources if each.store.is_online]
        found = await asyncio.gather(*(each.store.counts(each.number) for each in sources))
        for source, counts in zip(sources, found, strict=True):
            held = [
                each.content
                for model in self.models.values()
                for each in model.messages.values()
                if each.fragment == source.fragment
            ]
            changed = [content for content in held if content in self.changed]
            kept = [*changed, *(set(held) - self.changed)]
            assert counts.bytes == sum(len(content) + CHECKSUM_SIZE for content in kept)


class ConventionalTopicHistory(TopicHistory):
    """A conventional topic beside a store that it does not use."""

    is_partitioned = False
    store_count = 2


class PartitionedTopicHistory(TopicHistory):
    """A partitioned topic over three stores, of which each may be away."""

    is_partitioned = True
    store_count = 3


TestConventionalTopicHistory = pytest.mark.spec("R4")(ConventionalTopicHistory.TestCase)
TestPartitionedTopicHistory = pytest.mark.spec("R4")(PartitionedTopicHistory.TestCase)
TestConventionalTopicHistory.settings = fewer_examples(5)
TestPartitionedTopicHistory.settings = fewer_examples(15)
