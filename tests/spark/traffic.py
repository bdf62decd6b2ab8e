"""Messages in and out of the broker by an ordinary client, for tests that look at both sides."""

from collections.abc import Iterable, Sequence

from bendybus.client import Client, Message, SubQueue
from tests.spark.conftest import Bus

NOTHING_SECONDS = 0.5


def send(bus: Bus, entity: str, messages: Sequence[Message]) -> None:
    """Send messages, and return when they are stored."""
    with Client.from_connection_string(bus.connection_string) as client:
        client.sender(entity).send(messages)


def numbered(count: int, first: int = 0, **properties: object) -> list[Message]:
    """Make messages that are known by their numbers, with keys that spread them over fragments."""
    return [
        Message(
            str(number).encode(),
            **{"message_id": str(number), "partition_key": str(number % 97), **properties},  # type: ignore[arg-type]  # any of its own
        )
        for number in range(first, first + count)
    ]


def receive_all(bus: Bus, entity: str, subscription: str | None = None) -> list[bytes]:
    """Receive and complete what is free; return the bodies."""
    bodies: list[bytes] = []
    with Client.from_connection_string(bus.connection_string) as client:
        receiver = client.receiver(entity, subscription=subscription)
        while messages := receiver.receive(500, timeout=NOTHING_SECONDS):
            bodies += [_bytes(message.body) for message in messages]
            receiver.complete(messages)
    return bodies


def dead_letter(bus: Bus, entity: str, count: int, reason: str) -> None:
    """Make dead letters of the oldest messages."""
    with Client.from_connection_string(bus.connection_string) as client:
        receiver = client.receiver(entity)
        left = count
        while left:
            messages = receiver.receive(left, timeout=10)
            receiver.dead_letter(messages, reason, "because")
            left -= len(messages)


def count_of(bus: Bus, entity: str, sub_queue: SubQueue = SubQueue.MAIN) -> int:
    """Return how many messages there are, of any state."""
    with Client.from_connection_string(bus.connection_string) as client:
        return client.count(entity, sub_queue=sub_queue)


def numbers(bodies: Iterable[bytes]) -> list[int]:
    """Return the numbers of messages, in order."""
    return sorted(int(bytes(body)) for body in bodies)


def _bytes(body: object) -> bytes:
    assert isinstance(body, bytes)
    return body
