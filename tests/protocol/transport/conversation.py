"""The other end of a connection under test: it says exactly what a test tells it to."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.events import AttachReceived, Event
from bendybus.amqp.frames import AMQP_HEADER, FRAME_HEADER, encode_frame
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Flow,
    Open,
    Performative,
    SaslFrame,
    Source,
    Target,
    Transfer,
    decode_performative,
    decode_sasl_body,
)
from bendybus.amqp.session import AmqpLink

BodyT = TypeVar("BodyT")
EventT = TypeVar("EventT")


class Heard(NamedTuple):
    """One frame that came from the connection under test."""

    channel: int
    body: Performative | SaslFrame
    payload: bytes


class Peer:
    """Talks with one engine, frame by frame. `say` is this side, `heard` is the engine's."""

    def __init__(self, role: Role = Role.SERVER, **settings: Any) -> None:
        settings.setdefault("container_id", "under-test")
        self.engine = AmqpConnection(ConnectionSettings(**settings), role)
        self.headers: list[bytes] = []

    def write(self, data: bytes) -> list[Event]:
        """Send bytes as they are."""
        return self.engine.receive_data(data)

    def say(self, *bodies: Performative, channel: int = 0, payload: bytes = b"") -> list[Event]:
        """Send frames; the payload belongs to each of them."""
        return self.write(b"".join(frame(body, channel, payload) for body in bodies))

    def heard(self) -> list[Heard]:
        """Return the frames that the engine has sent since the last time."""
        data, pos, frames = self.engine.data_to_send(), 0, []
        while pos < len(data):
            if data.startswith(b"AMQP", pos):
                self.headers.append(data[pos : pos + 8])
                pos += 8
                continue
            size, doff, kind, channel = FRAME_HEADER.unpack_from(data, pos)
            start, end = pos + 4 * doff, pos + size
            if kind == 1:
                frames.append(Heard(channel, decode_sasl_body(data[start:end], 0), b""))
            elif start < end:
                body, after = decode_performative(data[start:end], 0)
                frames.append(Heard(channel, body, data[start + after : end]))
            pos = end
        return frames

    def bodies(self) -> list[Any]:
        """Return the performatives alone."""
        return [heard.body for heard in self.heard()]

    def opened(self, **fields: Any) -> Peer:
        """Exchange headers and Opens."""
        self.write(AMQP_HEADER)
        self.say(Open(container_id="peer", **fields))
        self.engine.open()
        self.heard()
        return self

    def begun(self, channel: int = 0, *, incoming_window: int = 100, **fields: Any) -> Peer:
        """Begin a session."""
        self.say(
            Begin(
                next_outgoing_id=0, incoming_window=incoming_window, outgoing_window=100, **fields
            ),
            channel=channel,
        )
        self.heard()
        return self

    def attached(self, *, handle: int = 0, receiver: bool = False, channel: int = 0) -> AmqpLink:
        """Attach a link, with the peer as its sender unless it is the receiver; accepted."""
        event = one(
            AttachReceived, self.say(attach(handle=handle, receiver=receiver), channel=channel)
        )
        event.link.accept_attach(max_message_size=1024)
        self.heard()
        return event.link


def frame(body: Performative, channel: int = 0, payload: bytes = b"") -> bytes:
    """Return a frame with a payload behind its performative."""
    encoded = encode_frame(channel, body)
    return (len(encoded) + len(payload)).to_bytes(4, "big") + encoded[4:] + payload


def attach(*, handle: int = 0, receiver: bool = False, name: str = "") -> Attach:
    """Return a peer's Attach."""
    return Attach(
        name=name or f"link-{handle}",
        handle=handle,
        role=receiver,
        source=Source(address="source"),
        target=Target(address="target"),
        initial_delivery_count=None if receiver else 0,
    )


def transfer(delivery_id: int | None = 0, **fields: Any) -> Transfer:
    """Return a peer's transfer, whole and unsettled unless fields say otherwise."""
    fields.setdefault("handle", 0)
    if delivery_id is not None:
        fields.setdefault("delivery_tag", b"tag")
    return Transfer(delivery_id=delivery_id, **fields)


def flow(**fields: Any) -> Flow:
    """Return a peer's Flow with session fields as after a fresh Begin."""
    session = {"next_incoming_id": 1, "incoming_window": 100, "next_outgoing_id": 0}
    return Flow(**(session | {"outgoing_window": 100} | fields))


def one(kind: type[EventT], events: list[Any]) -> EventT:
    """Return the only event, which must be of this kind."""
    assert len(events) == 1, events
    assert isinstance(events[0], kind), events
    return events[0]


def only(kind: type[BodyT], bodies: list[Any]) -> BodyT:
    """Return the only body of this kind among others."""
    found = [body for body in bodies if isinstance(body, kind)]
    assert len(found) == 1, bodies
    return found[0]
