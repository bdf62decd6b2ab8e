"""A topic and its subscriptions as the broker serves them."""

from collections.abc import Iterator

from bendybus.broker.served_queue import ServedQueue
from bendybus.model.entity import Subscription, Topic, name_key
from bendybus.model.ids import EntityNumber
from bendybus.model.topic_queues import queue_of_subscription, queue_of_topic


class ServedTopic(ServedQueue):
    """A topic: a queue whose messages are not received but given to its subscriptions.

    Its own queue holds what is scheduled, and numbers all that is published.
    """

    def __init__(self, number: EntityNumber, topic: Topic) -> None:
        super().__init__(number, topic.name, queue_of_topic(topic.properties))
        self.topic = topic
        self._subscriptions: dict[str, ServedSubscription] = {}

    def subscriptions(self) -> Iterator["ServedSubscription"]:
        """Yield every subscription."""
        yield from self._subscriptions.values()

    def subscription(self, name: str) -> "ServedSubscription | None":
        """Return a subscription by name, whatever its case."""
        return self._subscriptions.get(name_key(name))

    def subscribe(self, subscription: "ServedSubscription") -> None:
        """Take a subscription in, in place of one of the same name if there is one."""
        self._subscriptions[name_key(subscription.subscription.name)] = subscription

    def unsubscribe(self, subscription: "ServedSubscription") -> None:
        """Give it nothing any more."""
        del self._subscriptions[name_key(subscription.subscription.name)]


class ServedSubscription(ServedQueue):
    """A subscription: a queue that its topic fills."""

    def __init__(
        self, number: EntityNumber, name: str, subscription: Subscription, topic: ServedTopic
    ) -> None:
        properties = queue_of_subscription(topic.topic.properties, subscription.properties)
        super().__init__(number, name, properties)
        self.subscription = subscription
        self.topic = topic

    def note_link(self) -> None:
        """Note that a client's link leads here; who reads a subscription uses its topic."""
        super().note_link()
        self.topic.note_link()

    def note_link_gone(self) -> None:
        """Note that one of them has ended."""
        super().note_link_gone()
        self.topic.note_link_gone()
