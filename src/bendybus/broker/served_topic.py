"""A topic and its subscriptions as the broker serves them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from uuid import uuid4

from bendybus.broker.served_queue import ServedQueue
from bendybus.model.content_reader import ContentReader
from bendybus.model.entity import Subscription, Topic, name_key
from bendybus.model.filter_index import FilterIndex
from bendybus.model.ids import EntityNumber
from bendybus.model.rule import Filter, Rule, TrueFilter
from bendybus.model.rule_actions import CompiledAction, compile_action
from bendybus.model.topic_queues import queue_of_subscription, queue_of_topic


class ServedTopic(ServedQueue):
    """A topic: a queue whose messages are not received but given to its subscriptions.

    Its own queue holds what is scheduled, and numbers all that is published.
    """

    def __init__(
        self, number: EntityNumber, namespace: str, topic: Topic, reader: ContentReader
    ) -> None:
        super().__init__(number, namespace, topic.name, queue_of_topic(topic.properties))
        self.topic = topic
        self.reader = reader
        self.index: FilterIndex[ServedRule] = FilterIndex(new_id=uuid4)
        # Held from asking the rules until the store is told, so that messages keep their order.
        self.evaluating = asyncio.Lock()
        self._subscriptions: dict[str, ServedSubscription] = {}

    def change(self, topic: Topic) -> None:
        """Behave like this from now on, and so do the subscriptions where it concerns them."""
        self.topic = topic
        self.set_properties(queue_of_topic(topic.properties))
        for each in self.subscriptions:
            each.change(each.subscription)

    @property
    def subscriptions(self) -> Iterable["ServedSubscription"]:
        """Every subscription."""
        return self._subscriptions.values()

    @property
    def subscription_count(self) -> int:
        """How many there are."""
        return len(self._subscriptions)

    def subscription(self, name: str) -> "ServedSubscription | None":
        """Return a subscription by name, whatever its case."""
        return self._subscriptions.get(name_key(name))

    def has(self, subscription: "ServedSubscription") -> bool:
        """Whether it is, still, one of the topic's subscriptions."""
        return self.subscription(subscription.subscription.name) is subscription

    @property
    def is_used(self) -> bool:
        """Whether it or one of its subscriptions is in use now."""
        return super().is_used or any(each.is_used for each in self.subscriptions)

    def subscribe(self, subscription: "ServedSubscription") -> None:
        """Take a subscription in, in place of one of the same name if there is one."""
        key = name_key(subscription.subscription.name)
        before = self._subscriptions.get(key)
        if before is not None:
            before.set_rules(())
        self._subscriptions[key] = subscription

    def unsubscribe(self, subscription: "ServedSubscription") -> None:
        """Give it nothing any more."""
        subscription.set_rules(())
        del self._subscriptions[name_key(subscription.subscription.name)]


class ServedRule:
    """A rule of a subscription that has to look at messages, or changes them."""

    __slots__ = ("action", "subscription")

    def __init__(self, subscription: "ServedSubscription", action: CompiledAction | None) -> None:
        self.subscription = subscription
        self.action = action


class ServedSubscription(ServedQueue):
    """A subscription: a queue that its topic fills."""

    def __init__(
        self, number: EntityNumber, name: str, subscription: Subscription, topic: ServedTopic
    ) -> None:
        properties = queue_of_subscription(topic.topic.properties, subscription.properties)
        super().__init__(number, topic.namespace, name, properties)
        self.subscription = subscription
        self.topic = topic
        # Whether its own status lets messages in. Its topic's is asked when they are sent: what has
        # waited there for its time must not be lost if the topic is closed by then.
        self.takes_messages = subscription.properties.status.allows_send
        # Whether a rule lets every message in as it is, so that the others need not be asked.
        self.takes_everything = False
        # How many filters of each kind its rules have.
        self.filter_counts: Counter[type[Filter]] = Counter()
        self._rules: dict[Rule, ServedRule | None] = {}
        self.set_rules(subscription.rules)

    def change(self, subscription: Subscription) -> None:
        """Behave like this from now on, and let its rules hold."""
        self.subscription = subscription
        self.takes_messages = subscription.properties.status.allows_send
        self.set_properties(
            queue_of_subscription(self.topic.topic.properties, subscription.properties)
        )
        self.set_rules(subscription.rules)

    def note_link(self, on_change: Callable[[], None]) -> None:
        """Note that a client's link leads here; who reads a subscription uses its topic."""
        super().note_link(on_change)
        self.topic.note_link(on_change)

    def note_link_gone(self, on_change: Callable[[], None]) -> None:
        """Note that one of them has ended."""
        super().note_link_gone(on_change)
        self.topic.note_link_gone(on_change)

    def note_use(self) -> None:
        """Note that it was used, and so was its topic."""
        super().note_use()
        self.topic.note_use()

    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Let these rules hold from now on, for whole messages.

        Raises `ArgumentInvalid` if one means nothing; then those before it are in and the others
        are as they were.
        """
        wanted = dict.fromkeys(rules)
        for rule in rules:
            if rule not in self._rules:
                self._rules[rule] = self._served(rule)
        for rule in [rule for rule in self._rules if rule not in wanted]:
            served = self._rules.pop(rule)
            if served is not None:
                self.topic.index.remove(served)
        self.takes_everything = any(map(_lets_all_in, rules))
        self.filter_counts = Counter(type(rule.filter) for rule in rules)

    def _served(self, rule: Rule) -> ServedRule | None:
        if _lets_all_in(rule):
            return None
        action = None if rule.action is None else compile_action(rule.action, new_id=uuid4)
        served = ServedRule(self, action)
        self.topic.index.add(served, rule.filter)
        return served


def _lets_all_in(rule: Rule) -> bool:
    return rule.action is None and isinstance(rule.filter, TrueFilter)
