"""What one sender sends on one link is kept in that order, however it reaches the broker."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from bendybus.amqp.events import DispositionReceived, Event
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.sections import SectionCode, encode_section
from bendybus.amqp.session import AmqpLink, AmqpSession, LinkRole
from bendybus.amqp.terminus import Source, Target
from bendybus.broker.browse import browse
from bendybus.broker.clock import SystemClock
from bendybus.broker.served_queue import ServedQueue
from bendybus.content.incoming_message import BATCH_FORMAT
from bendybus.model.entity import Queue, QueueProperties
from bendybus.server.connection import ClientConnection
from bendybus.testing.local_broker import listening, local_broker
from tests.kill.load_client import Link, encode_message

WAIT_SECONDS = 30

# Message formats and payloads that reach the broker in one read of its socket.
Read = list[tuple[int, bytes]]


class Pipeliner(Link):
    """Hands several reads to its connection in one turn of the loop, as uvloop does.

    (uvloop reads on, up to 32 times, while a read fills its buffer, before anybody may work.)
    """

    def __init__(self, queue: str, reads: list[Read], server: set[ClientConnection]) -> None:
        super().__init__("pipeliner", queue, lambda _: None)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reads = reads
        self._server = server
        self._unanswered = sum(map(len, reads))

    def attach(self, session: AmqpSession) -> AmqpLink:
        return session.attach(
            self.name,
            LinkRole.SENDER,
            source=Source(address=self.name),
            target=Target(address=self.queue),
            snd_settle_mode=0,
        )

    def take(self, event: Event) -> None:
        if isinstance(event, DispositionReceived):
            assert isinstance(event.state, Accepted)
            self._unanswered -= len(event.deliveries)
            if not self._unanswered:
                self.done.set_result(None)

    def work(self) -> None:
        if not self.link.sendable():
            return
        [connection] = self._server
        for read in self._reads:
            for at, (message_format, payload) in enumerate(read):
                tag = at.to_bytes(4, "big")
                self.link.send(payload, tag, settled=False, message_format=message_format)
            connection.data_received(self._engine.data_to_send())
        self._reads = []

    def forget(self) -> None:
        self.stop()


async def kept_after(folder: Path, properties: QueueProperties, *reads: Read) -> list[bytes]:
    """Send to a new queue, and return what it then holds, in its order."""
    queue, clock = Queue("queue", properties), SystemClock()
    async with local_broker(folder, [queue], clock) as broker, listening(broker) as listener:
        sender = Pipeliner("queue", list(reads), listener.connections)
        async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as group:
            group.create_task(sender.run(listener.port))
            await sender.done
            sender.leave()
        return await contents(broker.queue("queue"))


async def contents(queue: ServedQueue) -> list[bytes]:
    found: list[bytes] = []
    following = 0
    while some := await browse(queue.main, following, 250):
        found += [message.content for message in some]
        following = some[-1].sequence + 1
    return found


def order_of(messages: Iterable[str], found: list[bytes]) -> list[str]:
    """Return the messages in the order in which they are kept."""
    marks = {each: f"<{each}>".encode() for each in messages}
    return [each for content in found for each, mark in marks.items() if mark in content]


def singles(*messages: tuple[str, str | None]) -> Read:
    return [(0, encode_message(name, key)) for name, key in messages]


def batch(*names: str) -> Read:
    parts = [encode_section(SectionCode.DATA, encode_message(name, None)) for name in names]
    return [(BATCH_FORMAT, b"".join(parts))]


@pytest.mark.spec("R3.6")
async def test_batches_and_what_is_between_them_are_kept_in_the_order_of_sending(
    tmp_path: Path,
) -> None:
    read = [*batch("a", "b"), *singles(("c", None)), *batch("d", "e"), *singles(("f", None))]
    found = await kept_after(tmp_path, QueueProperties(), read)
    assert order_of("abcdef", found) == list("abcdef")


@pytest.mark.spec("R3.6")
async def test_a_key_keeps_its_order_over_two_reads_in_one_turn(tmp_path: Path) -> None:
    # The first read goes to two fragments, the second to one of them.
    first = singles(("a", "red"), ("b", "blue"), ("c", "red"))
    second = singles(("d", "red"), ("e", "red"))
    found = await kept_after(tmp_path, QueueProperties(enable_partitioning=True), first, second)
    assert order_of("acde", found) == list("acde")
