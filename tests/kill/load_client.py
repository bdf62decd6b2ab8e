"""Clients that keep hundreds of messages in flight, come back after every kill, and log it all.

They are the engine in the client's role over plain sockets: what the official clients would do,
without their retries hiding what was acknowledged and what was not.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, cast

from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    Event,
    SenderDispositionReceived,
    SessionFailed,
    TransferReceived,
)
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.sections import (
    Section,
    SectionCode,
    decode_list,
    decode_map,
    decode_section,
    encode_properties,
    encode_section,
    find_sections,
)
from bendybus.amqp.session import AmqpLink, AmqpSession, LinkRole
from bendybus.amqp.terminus import Source, Target
from bendybus.amqp.values import Symbol
from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Entry,
    Received,
    Sent,
)

IN_FLIGHT_MAX: Final = 200
CREDIT: Final = 200
# A receiver holds so many messages before it settles some, so that a kill finds locks.
HELD_MAX: Final = 100
CONNECT_PAUSE_SECONDS: Final = 0.02
BODY_REPEATS: Final = 10

Write = Callable[[Entry], None]


class Link(asyncio.Protocol):
    """One client of one queue, over as many connections as it takes."""

    role: LinkRole

    def __init__(self, name: str, queue: str, write: Write) -> None:
        self.name = name
        self.queue = queue
        self.write = write
        self.link: AmqpLink
        self._engine: AmqpConnection
        self._transport: asyncio.Transport
        self._lost: asyncio.Future[None]
        # Where it is connected, or tries to be.
        self.port = 0
        self._is_stopped = False

    async def run(self, port: int) -> None:
        """Connect to a broker, again and again, until stopped."""
        await self.roam(lambda: port)

    async def roam(self, choose: Callable[[], int]) -> None:
        """Connect to whichever broker is chosen, again and again, until stopped."""
        loop = asyncio.get_running_loop()
        while not self._is_stopped:
            self._lost = loop.create_future()
            self.port = choose()
            try:
                await loop.create_connection(lambda: self, "127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(CONNECT_PAUSE_SECONDS)
            else:
                await self._lost

    def stop(self) -> None:
        """Connect no more; the present connection stays, so that nothing is given back."""
        self._is_stopped = True

    def leave(self) -> None:
        """End the present connection too."""
        self.stop()
        self.move()

    def move(self) -> None:
        """End the present connection, whether the broker answers or not."""
        self._transport.abort()

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        settings = ConnectionSettings(
            container_id=self.name,
            hostname="localhost",
            sasl_username="RootManageSharedAccessKey",
            sasl_password="SAS_KEY_VALUE",
        )
        self._engine = AmqpConnection(settings, Role.CLIENT)
        self._engine.open()
        self.link = self.attach(self._engine.begin())
        self._flush()

    def data_received(self, data: bytes) -> None:
        for event in self._engine.receive_data(data):
            if isinstance(event, CloseReceived | ConnectionFailed | DetachReceived | SessionFailed):
                self._transport.close()
                return
            self.take(event)
        self.work()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.forget()
        if not self._lost.cancelled():
            self._lost.set_result(None)

    def _flush(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._engine.data_to_send())

    # What the two kinds do

    @property
    def at_stake(self) -> int:
        """How many messages it has under way: sent and not answered, received and not settled."""
        raise NotImplementedError

    def attach(self, session: AmqpSession) -> AmqpLink:
        """Ask for the link."""
        raise NotImplementedError

    def take(self, event: Event) -> None:
        """Note what the broker did."""
        raise NotImplementedError

    def work(self) -> None:
        """Do what can be done now."""
        raise NotImplementedError

    def forget(self) -> None:
        """The connection is gone, and with it what was under way."""
        raise NotImplementedError


class LoadSender(Link):
    """Sends as fast as it is acknowledged.

    What has no key it sends again if the acknowledgement did not come; what has one it does not,
    because that would change the order.
    """

    def __init__(
        self, name: str, queue: str, write: Write, keys: list[str | None], rng: random.Random
    ) -> None:
        super().__init__(name, queue, write)
        self._source = self._messages(keys, rng)
        self._in_flight: dict[str, str | None] = {}
        self._again: deque[str] = deque()
        self.is_sending = True

    def _messages(
        self, keys: list[str | None], rng: random.Random
    ) -> Iterator[tuple[str, str | None]]:
        number = 0
        while True:
            number += 1
            yield f"{self.name}-{number}", rng.choice(keys)

    def attach(self, session: AmqpSession) -> AmqpLink:
        return session.attach(
            self.name,
            LinkRole.SENDER,
            source=Source(address=self.name),
            target=Target(address=self.queue),
            snd_settle_mode=0,
        )

    @property
    def at_stake(self) -> int:
        return len(self._in_flight)

    def take(self, event: Event) -> None:
        if isinstance(event, DispositionReceived):
            for delivery in event.deliveries:
                message = str(delivery.parcel)
                del self._in_flight[message]
                if isinstance(event.state, Accepted):
                    self.write(Acknowledged(message))

    def work(self) -> None:
        while self.is_sending and len(self._in_flight) < IN_FLIGHT_MAX and self.link.sendable():
            message, key = (self._again.popleft(), None) if self._again else next(self._source)
            self._in_flight[message] = key
            self.write(Sent(message, self.order_of(key)))
            tag = message.encode()
            self.link.send(encode_message(message, key), tag, settled=False, parcel=message)

    def order_of(self, key: str | None) -> str | None:
        """Within what the message must keep its place: this sender's messages of that key."""
        return None if key is None else f"{self.name} {key}"

    def forget(self) -> None:
        self._again += [message for message, key in self._in_flight.items() if key is None]
        self._in_flight.clear()


class LoadReceiver(Link):
    """Receives and completes, several at once, always holding some back."""

    def __init__(self, name: str, queue: str, write: Write, rng: random.Random) -> None:
        super().__init__(name, queue, write)
        self._rng = rng
        self._held: deque[tuple[int, int]] = deque()
        self._asked: dict[int, int] = {}
        self.is_settling_all = False

    def attach(self, session: AmqpSession) -> AmqpLink:
        return session.attach(
            self.name,
            LinkRole.RECEIVER,
            source=Source(address=self.queue),
            target=Target(address=self.name),
            snd_settle_mode=0,
            rcv_settle_mode=1,
        )

    @property
    def at_stake(self) -> int:
        return len(self._held)

    def take(self, event: Event) -> None:
        if isinstance(event, AttachReceived):
            self.link.grant(CREDIT)
        elif isinstance(event, TransferReceived):
            message, sequence, delivery_count = decode_message(event.payload)
            self.write(Received(message, sequence, delivery_count, self.name))
            self._held.append((event.delivery_id, sequence))
        elif isinstance(event, SenderDispositionReceived):
            for delivery_id in range(event.first_id, event.last_id + 1):
                sequence = self._asked.pop(delivery_id)
                if isinstance(event.state, Accepted):
                    self.write(Completed(sequence))

    def work(self) -> None:
        held = len(self._held)
        if self.is_settling_all:
            self._settle(held)
        elif held > HELD_MAX:
            self._settle(self._rng.randint(1, held))
        if self.link.credit <= CREDIT // 2:
            self.link.grant(CREDIT)

    def _settle(self, count: int) -> None:
        for _ in range(count):
            delivery_id, sequence = self._held.popleft()
            self._asked[delivery_id] = sequence
            self.write(CompletionAsked(sequence))
            self.link.settle(delivery_id, delivery_id, Accepted(), settled=False)

    def forget(self) -> None:
        self._held.clear()
        self._asked.clear()


def encode_message(message: str, key: str | None) -> bytes:
    """Make a message whose body tells its name as well."""
    annotations = b""
    if key is not None:
        annotations = encode_section(
            SectionCode.MESSAGE_ANNOTATIONS, {Symbol("x-opt-partition-key"): key}
        )
    body = encode_section(SectionCode.DATA, f"<{message}>".encode() * BODY_REPEATS)
    return annotations + encode_properties([message]) + body


def decode_message(payload: bytes) -> tuple[str, int, int]:
    """Return a message's name, sequence number and delivery count; the body must be its own."""
    sections: dict[int, Section] = {each.code: each for each in find_sections(payload)}
    message = str(decode_list(payload, sections[SectionCode.PROPERTIES])[0])
    body = decode_section(payload, sections[SectionCode.DATA])
    assert body == f"<{message}>".encode() * BODY_REPEATS, "the body is another message's"
    annotations = decode_map(payload, sections[SectionCode.MESSAGE_ANNOTATIONS])
    sequence = annotations[Symbol("x-opt-sequence-number")]
    delivery_count = decode_list(payload, sections[SectionCode.HEADER])[4]
    assert isinstance(sequence, int)
    assert isinstance(delivery_count, int)
    return message, int(sequence), int(delivery_count)
