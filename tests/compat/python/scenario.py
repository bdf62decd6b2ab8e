"""How a scenario for the official Python client is declared, and what it is given to work with.

A scenario is a function named by the sentence that it proves. It runs once with every version of
the client and on every kind of queue, each time on a fresh queue of its own.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar

import azure.servicebus
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)

from bendybus.testing.broker_process import BrokerProcess
from tests.compat.cases import KINDS

WAIT_SECONDS_MAX: Final = 30.0
# Long enough to see that nothing comes, where a message that is free would come at once.
NOTHING_SECONDS: Final = 1.0
# Where peeking begins. The client takes 0 for "go on where you were".
FIRST: Final = 1

Client = TypeVar("Client", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Encrypted:
    """The broker's doors with TLS, and the file of the authority that a client may trust."""

    amqpsPort: int  # noqa: N815 - the order is read by JavaScript, too
    httpsPort: int  # noqa: N815 - see above
    authority: str


@dataclass(slots=True)
class Bus:
    """The broker as a scenario sees it: where it is, and one queue.

    `broker` is there for scenarios that have a broker to themselves and may stop it; `encrypted`
    for the others.
    """

    connection_string: str
    management_url: str
    queue: str
    is_partitioned: bool
    broker: BrokerProcess | None = None
    encrypted: Encrypted | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _sender: ServiceBusSender | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def own_broker(self) -> BrokerProcess:
        """The broker of a scenario that was declared with one."""
        assert self.broker is not None
        return self.broker

    @contextmanager
    def client(self, **options: Any) -> Iterator[ServiceBusClient]:
        """Open a client; each of its senders and receivers has a connection of its own."""
        with ServiceBusClient.from_connection_string(self.connection_string, **options) as client:
            yield client

    @contextmanager
    def sender(self, **options: Any) -> Iterator[ServiceBusSender]:
        """Open a sender to the queue."""
        with self.client(**options) as client, client.get_queue_sender(self.queue) as sender:
            yield sender

    @contextmanager
    def receiver(self, **options: Any) -> Iterator[ServiceBusReceiver]:
        """Open a receiver of the queue."""
        with self.client() as client, client.get_queue_receiver(self.queue, **options) as receiver:
            yield receiver

    @contextmanager
    def topic_sender(self) -> Iterator[ServiceBusSender]:
        """Open a sender to the topic, of a scenario that has one."""
        with self.client() as client, client.get_topic_sender(self.queue) as sender:
            yield sender

    @contextmanager
    def subscription(self, name: str, **options: Any) -> Iterator[ServiceBusReceiver]:
        """Open a receiver of a subscription of the topic."""
        with (
            self.client() as client,
            client.get_subscription_receiver(self.queue, name, **options) as receiver,
        ):
            yield receiver

    @contextmanager
    def dead_letters(self, **options: Any) -> Iterator[ServiceBusReceiver]:
        """Open a receiver of the queue's dead letters."""
        with self.receiver(sub_queue=ServiceBusSubQueue.DEAD_LETTER, **options) as receiver:
            yield receiver

    def send(self, *messages: ServiceBusMessage) -> None:
        """Send messages one by one, through one sender that stays open with the scenario."""
        if self._sender is None:
            self._sender = self._stack.enter_context(self.sender())
        for message in messages:
            self._sender.send_messages(message)


Scenario = Callable[[Bus], None] | Callable[[Bus], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Declared:
    """A scenario and what it needs."""

    run: Scenario
    kinds: Sequence[str]
    properties: Mapping[str, Any]
    has_own_broker: bool
    is_for_newest: bool


SCENARIOS: Final[dict[str, Declared]] = {}


def scenario(
    *,
    kinds: Sequence[str] = KINDS,
    has_own_broker: bool = False,
    is_for_newest: bool = False,
    **properties: Any,
) -> Callable[[Client], Client]:
    """Declare a scenario; `properties` are those of its queue, as in the configuration file.

    With `Subscriptions` among them, it has a topic in place of a queue.

    `is_for_newest` says that it shows what only the newest client can.
    """

    def declare(function: Client) -> Client:
        name = function.__name__
        assert name not in SCENARIOS, f"there are two scenarios {name}"
        SCENARIOS[name] = Declared(
            function,  # type: ignore[arg-type]  # the runner sees whether it can be awaited
            kinds,
            properties,
            has_own_broker,
            is_for_newest,
        )
        return function

    return declare


def awaits_settlements() -> bool:
    """Whether the client waits for the broker's answer to a settlement, as 7.15 began to."""
    major, minor = azure.servicebus.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (7, 15)


def receive(
    receiver: ServiceBusReceiver, count: int, *, is_completing: bool = False
) -> list[ServiceBusReceivedMessage]:
    """Receive exactly so many messages, in as many calls as it takes, if they keep coming."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        arrived = receiver.receive_messages(count - len(messages), max_wait_time=WAIT_SECONDS_MAX)
        if not arrived:
            break
        messages += arrived
        for message in arrived if is_completing else []:
            receiver.complete_message(message)
    assert len(messages) == count, f"{len(messages)} of {count} messages came"
    return messages


def receive_all(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive and complete exactly so many messages, each call's before the next."""
    return receive(receiver, count, is_completing=True)


def is_empty(receiver: ServiceBusReceiver) -> bool:
    """Whether the queue holds nothing at all, locked or not.

    A client that does not wait for answers may look before its last settlement was done; such a
    one looks again for a while.
    """
    deadline = time.monotonic() + (0 if awaits_settlements() else WAIT_SECONDS_MAX)
    while receiver.peek_messages(1, sequence_number=FIRST):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.05)
    return True


def await_removal(receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
    """Return when the message has left the queue, as its completion wants it to."""
    number = message.sequence_number
    assert number is not None

    def is_gone() -> bool:
        found = receiver.peek_messages(1, sequence_number=number)
        return number not in [each.sequence_number for each in found]

    until(is_gone)


def gets_nothing(receiver: ServiceBusReceiver, seconds: float = NOTHING_SECONDS) -> bool:
    """Whether nothing can be received for so long."""
    return not receiver.receive_messages(1, max_wait_time=seconds)


def body_of(message: ServiceBusReceivedMessage) -> bytes:
    """The bytes of a message that was sent as such."""
    return b"".join(message.body)


def bodies(messages: Sequence[ServiceBusReceivedMessage]) -> list[bytes]:
    """The bytes of messages, in their order."""
    return [body_of(message) for message in messages]


def numbered(count: int, **properties: Any) -> list[ServiceBusMessage]:
    """Messages that can be told apart by their bodies."""
    return [ServiceBusMessage(body, **properties) for body in numbered_bodies(count)]


def numbered_bodies(count: int) -> list[bytes]:
    """The bodies of `numbered`."""
    return [b"message %d" % number for number in range(count)]


def until(condition: Callable[[], bool]) -> None:
    """Look at a condition until it holds."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not happen"
        time.sleep(0.05)
