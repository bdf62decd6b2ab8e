"""A client that says exactly what a test tells it to, frame by frame, over a real socket.

Nothing is answered by itself and no rule is kept: a test can break any. What the broker says is
kept in order; `hear` takes the first frame that fits and leaves the others for later. Fields of
frames and states of deliveries are passed through as they are, hence `Any`.
"""

import asyncio
import socket
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from bendybus.amqp.frames import (
    AMQP_HEADER,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    SASL_HEADER,
    encode_frame,
    encode_sasl_frame,
)
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Detach,
    Disposition,
    Flow,
    Open,
    Performative,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
    decode_performative,
    decode_sasl_body,
)

# Long enough for a busy machine, short enough that a missing answer is a failure and not a hang.
WAIT_SECONDS: Final = 10.0
_READ_BYTES: Final = 1 << 20
# Past twice of that the socket is not read until the test hears something.
_BUFFER_BYTES: Final = 1 << 16
# What fits into a frame of the broker's size beside the Transfer.
_PART_BYTES: Final = 60_000
_SASL_FRAME: Final = 1
_WINDOW: Final = 2**31 - 1
_SASL_OK: Final = 0

BodyT = TypeVar("BodyT")


@dataclass(frozen=True, slots=True)
class Heard(Generic[BodyT]):
    """One frame from the broker. `read` numbers the read of the socket that brought its end."""

    channel: int
    body: BodyT
    payload: bytes
    read: int
    field_count: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """One whole delivery from the broker."""

    delivery_id: int
    tag: bytes
    settled: bool
    message_format: int | None
    payload: bytes
    frame_count: int


class WireClient:
    """One connection, made by `connected`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.headers: list[bytes] = []
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray()
        self._unheard: defaultdict[type, deque[Heard[Any]]] = defaultdict(deque)
        self._dispositions: list[tuple[int, Disposition]] = []
        self._reads = 0

    # Saying

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    async def written(self) -> None:
        """Wait until the kernel has taken nearly all that was said."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self._writer.drain()

    def say(self, *bodies: Performative, channel: int = 0, payload: bytes = b"") -> None:
        """Send frames in one write; the payload belongs to each of them."""
        self.write(b"".join(frame(body, channel, payload) for body in bodies))

    def hang_up(self) -> None:
        """Drop the connection without a word."""
        transport = self._writer.transport
        transport.abort()

    # Hearing

    async def hear(
        self, kind: type[BodyT], where: Callable[[Heard[BodyT]], bool] | None = None
    ) -> Heard[BodyT]:
        """Take the first frame of this kind that fits, waiting for it if need be."""
        waiting = self._unheard[kind]
        seen = 0
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                for at in range(seen, len(waiting)):
                    heard = waiting[at]
                    if where is None or where(heard):
                        del waiting[at]
                        return heard
                seen = len(waiting)
                if not await self._read():
                    raise ConnectionResetError(f"the broker closed; no {kind.__name__} came")

    def unheard(self, kind: type[BodyT]) -> list[BodyT]:
        """Return what has arrived of this kind and was not taken."""
        return [heard.body for heard in self._unheard[kind]]

    async def until_closed(self) -> None:
        """Wait until the broker has closed the connection."""
        async with asyncio.timeout(WAIT_SECONDS):
            while await self._read():
                continue

    async def outcome(self, channel: int, delivery_id: int, *, receiver: bool) -> Any:  # noqa: ANN401 - of the frame
        """Return the state in the first settled disposition that covers a delivery."""
        seen = 0
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                for of_channel, each in self._dispositions[seen:]:
                    last = each.first if each.last is None else each.last
                    is_for_it = of_channel == channel and each.role is receiver and each.settled
                    if is_for_it and each.first <= delivery_id <= last:
                        return each.state
                seen = len(self._dispositions)
                if not await self._read():
                    raise ConnectionResetError("the broker closed; no disposition came")

    def outcomes_heard(self) -> list[Disposition]:
        """Return every disposition that has arrived."""
        return [each for _, each in self._dispositions]

    async def _read(self) -> bool:
        data = await self._reader.read(_READ_BYTES)
        self._reads += 1
        self._buffer += data
        self._cut()
        return bool(data)

    def _cut(self) -> None:
        """Cut what has come into protocol headers and frames."""
        buffer, at = bytes(self._buffer), 0
        while len(buffer) - at >= FRAME_HEADER_SIZE:
            if buffer.startswith(b"AMQP", at):
                self.headers.append(buffer[at : at + FRAME_HEADER_SIZE])
                at += FRAME_HEADER_SIZE
                continue
            size, doff, kind, channel = FRAME_HEADER.unpack_from(buffer, at)
            if len(buffer) - at < size:
                break
            self._take(channel, kind, buffer[at + 4 * doff : at + size])
            at += size
        del self._buffer[:at]

    def _take(self, channel: int, kind: int, content: bytes) -> None:
        if not content:
            return
        body: object
        if kind == _SASL_FRAME:
            body, end = decode_sasl_body(content, 0), len(content)
        else:
            body, end = decode_performative(content, 0)
        heard = Heard(channel, body, content[end:], self._reads, _field_count(content))
        self._unheard[type(body)].append(heard)
        if isinstance(body, Disposition):
            self._dispositions.append((channel, body))

    # What nearly every conversation begins with

    async def log_in(
        self,
        mechanism: str = "ANONYMOUS",
        response: bytes = b"",
        login_host: str | None = "localhost",
        **fields: Any,  # noqa: ANN401 - of the frame
    ) -> Open:
        """Pass SASL and exchange Opens; fields are those of our Open."""
        self.write(SASL_HEADER)
        await self.hear(SaslMechanisms)
        self.write(encode_sasl_frame(SaslInit(mechanism, response, login_host)))
        outcome = (await self.hear(SaslOutcome)).body
        if outcome.code != _SASL_OK:
            raise PermissionError(f"the broker refused: SASL code {outcome.code}")
        self.write(AMQP_HEADER)
        self.say(Open(container_id="wire-client", **fields))
        return (await self.hear(Open)).body

    async def begin(self, channel: int = 0, *, incoming_window: int = _WINDOW) -> Begin:
        """Begin a session."""
        self.say(
            Begin(next_outgoing_id=0, incoming_window=incoming_window, outgoing_window=_WINDOW),
            channel=channel,
        )
        return (await self.hear(Begin, lambda heard: heard.channel == channel)).body

    async def attach(self, attach: Attach, *, channel: int = 0) -> "WireLink":
        """Attach a link and return it with the broker's answer, whatever that is."""
        self.say(attach, channel=channel)
        answer = await self.hear(
            Attach, lambda heard: heard.channel == channel and heard.body.name == attach.name
        )
        return WireLink(self, channel, attach, answer)

    async def sender(self, address: str, *, channel: int = 0, handle: int = 0) -> "WireLink":
        """Attach a link that sends to an address; it must be accepted."""
        link = await self.attach(sending(address, handle=handle), channel=channel)
        assert link.answer.target is not None, "the link was refused"
        return link

    async def receiver(
        self, address: str, *, channel: int = 0, handle: int = 1, settled: bool = False
    ) -> "WireLink":
        """Attach a link that receives from an address; it must be accepted."""
        link = await self.attach(
            receiving(address, handle=handle, settled=settled), channel=channel
        )
        assert link.answer.source is not None, "the link was refused"
        return link


@dataclass(slots=True)
class WireLink:
    """One link, from the client's end."""

    client: WireClient
    channel: int
    attach: Attach
    answered: Heard[Attach]
    delivery_count: int = 0

    @property
    def answer(self) -> Attach:
        """The broker's Attach."""
        return self.answered.body

    @property
    def handle(self) -> int:
        """The client's handle."""
        return self.attach.handle

    def send(self, payload: bytes, delivery_id: int, **fields: Any) -> None:  # noqa: ANN401 - of the frame
        """Send one delivery, in as many frames as it needs; fields are those of the Transfer."""
        fields.setdefault("delivery_tag", delivery_id.to_bytes(4, "big"))
        fields.setdefault("message_format", 0)
        is_unfinished = bool(fields.pop("more", False))
        starts = range(0, max(1, len(payload)), _PART_BYTES)
        for start in starts:
            transfer = Transfer(
                handle=self.handle,
                delivery_id=delivery_id,
                more=is_unfinished or start != starts[-1],
                **fields,
            )
            part = payload[start : start + _PART_BYTES]
            self.client.say(transfer, channel=self.channel, payload=part)

    async def sent(self, payload: bytes, delivery_id: int, **fields: Any) -> Any:  # noqa: ANN401 - of the frame
        """Send one delivery and return how the broker settled it."""
        self.send(payload, delivery_id, **fields)
        return await self.client.outcome(self.channel, delivery_id, receiver=True)

    def flow(self, **fields: Any) -> None:  # noqa: ANN401 - of the frame
        """Send a Flow for this link."""
        session = {"next_incoming_id": 1, "incoming_window": _WINDOW, "next_outgoing_id": 0}
        session["outgoing_window"] = _WINDOW
        fields.setdefault("delivery_count", self.delivery_count)
        self.client.say(Flow(**(session | {"handle": self.handle} | fields)), channel=self.channel)

    async def flowed(self, where: Callable[[Flow], bool] = lambda _: True) -> Flow:
        """Take the next Flow from the broker for this link."""
        handle = self.answer.handle
        heard = await self.client.hear(
            Flow,
            lambda each: self._is_mine(each.channel, each.body.handle, handle) and where(each.body),
        )
        return heard.body

    async def receive(self) -> Delivery:
        """Take the next delivery, all frames of it."""
        handle = self.answer.handle
        first: Transfer | None = None
        parts: list[bytes] = []
        while True:
            heard = await self.client.hear(
                Transfer, lambda each: self._is_mine(each.channel, each.body.handle, handle)
            )
            first = first or heard.body
            parts.append(heard.payload)
            if not heard.body.more:
                break
        self.delivery_count += 1
        assert first.delivery_id is not None
        assert first.delivery_tag is not None
        return Delivery(
            first.delivery_id,
            first.delivery_tag,
            bool(first.settled),
            first.message_format,
            b"".join(parts),
            len(parts),
        )

    def settle(
        self, first: Delivery, state: object, *, last: Delivery | None = None, settled: bool = False
    ) -> None:
        """Say what became of deliveries."""
        self.client.say(
            Disposition(
                role=True,
                first=first.delivery_id,
                last=(last or first).delivery_id,
                settled=settled,
                state=state,
            ),
            channel=self.channel,
        )

    async def confirmed(self, delivery: Delivery) -> Any:  # noqa: ANN401 - of the frame
        """Return the state in which the broker confirmed a settlement."""
        return await self.client.outcome(self.channel, delivery.delivery_id, receiver=False)

    async def detached(self) -> Detach:
        """Take the broker's Detach of this link."""
        handle = self.answer.handle
        heard = await self.client.hear(
            Detach, lambda each: self._is_mine(each.channel, each.body.handle, handle)
        )
        return heard.body

    def _is_mine(self, channel: int, handle: int | None, own: int) -> bool:
        return channel == self.channel and handle == own


def sending(address: object, *, handle: int = 0, **fields: Any) -> Attach:  # noqa: ANN401 - of the frame
    """Return the Attach of a link that sends."""
    fields.setdefault("name", f"sender-{handle}")
    fields.setdefault("source", Source(address="client"))
    fields.setdefault("snd_settle_mode", 0)
    fields.setdefault("target", Target(address=address))
    return Attach(handle=handle, role=False, initial_delivery_count=0, **fields)


def receiving(address: object, *, handle: int = 1, settled: bool = False, **fields: Any) -> Attach:  # noqa: ANN401 - of the frame
    """Return the Attach of a link that receives, in peek-lock unless settled."""
    fields.setdefault("name", f"receiver-{handle}")
    fields.setdefault("source", Source(address=address))
    fields.setdefault("target", Target(address="client"))
    fields.setdefault("snd_settle_mode", 1 if settled else 0)
    fields.setdefault("rcv_settle_mode", 0 if settled else 1)
    return Attach(handle=handle, role=True, **fields)


def frame(body: Performative, channel: int = 0, payload: bytes = b"") -> bytes:
    """Return a frame with a payload behind its performative."""
    encoded = encode_frame(channel, body)
    return (len(encoded) + len(payload)).to_bytes(4, "big") + encoded[4:] + payload


def _field_count(content: bytes) -> int:
    """Return how many fields a performative was sent with, trailing nulls included."""
    constructor = content[3]
    if constructor == 0x45:
        return 0
    return content[5] if constructor == 0xC0 else int.from_bytes(content[8:12], "big")


@asynccontextmanager
async def connected(port: int, *, receive_bytes: int | None = None) -> AsyncIterator[WireClient]:
    """Connect to a broker on this machine; nothing is said yet.

    With few `receive_bytes` the kernel takes hardly more than the test reads.
    """
    connection = socket.socket()
    connection.setblocking(False)
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=connection, limit=_BUFFER_BYTES)
    try:
        yield WireClient(reader, writer)
    finally:
        writer.transport.abort()
