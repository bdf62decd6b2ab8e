"""Dead letters in a broker, and what becomes of them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from bendybus.client import Client, Message, ReceivedMessage, SubQueue
from bendybus.pipelines import triage
from tests.spark.conftest import Bus

DEAD = SubQueue.DEAD_LETTER
SOON = 10.0


class Letter(NamedTuple):
    """A message that is to fail: what it says, and why it fails."""

    body: bytes
    reason: str | None = None
    text: str | None = None
    properties: dict[str, object] | None = None
    session_id: str | None = None


def bury(
    client: Client, entity: str, letters: Iterable[Letter], subscription: str | None = None
) -> None:
    """Send messages and dead-letter each for its reason."""
    by_body = {letter.body: letter for letter in letters}
    client.sender(entity).send(
        [
            Message(
                letter.body,
                message_id=letter.body.decode(),
                partition_key=letter.body.decode()[-1],
                application_properties=letter.properties or {},
            )
            for letter in by_body.values()
        ]
    )
    with client.receiver(entity, subscription=subscription) as receiver:
        left = len(by_body)
        while left:
            for each in receiver.receive(left, SOON):
                letter = by_body[as_bytes(each)]
                receiver.dead_letter(each, letter.reason, letter.text)
                left -= 1


def as_bytes(message: ReceivedMessage) -> bytes:
    assert isinstance(message.body, bytes)
    return message.body


def lying(
    client: Client, entity: str, sub_queue: SubQueue = SubQueue.MAIN, **where: Any
) -> list[ReceivedMessage]:
    """Return all messages, without touching them."""
    with client.receiver(entity, sub_queue=sub_queue, **where) as receiver:
        return receiver.peek_merged(250)


def bodies(messages: Iterable[ReceivedMessage]) -> Counter[bytes]:
    return Counter(as_bytes(each) for each in messages)


def options(bus: Bus, entity: str, **given: Any) -> triage.Options:
    return triage.Options(
        connection_string=bus.connection_string,
        flight_endpoint=bus.flight_endpoint,
        management_url=bus.broker.management_url,
        entity=entity,
        **given,
    )


def rules_in(folder: Path, text: str) -> Path:
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return path
