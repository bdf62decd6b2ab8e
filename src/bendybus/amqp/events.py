"""What a peer did, past tense. The caller reads them in order; the engine has done its part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from bendybus.amqp.performatives import AmqpError, Attach, Open
from bendybus.amqp.session import AmqpLink, AmqpSession, OutgoingDelivery


@dataclass(slots=True)
class SaslInitReceived:
    """The client chose a mechanism. Nothing more is read until `sasl_outcome` is called."""

    mechanism: str
    response: bytes
    hostname: str | None


@dataclass(slots=True)
class OpenReceived:
    """Answer with `AmqpConnection.open` unless we opened first."""

    open: Open


@dataclass(slots=True)
class BeginReceived:
    """A session is there; the engine has answered."""

    session: AmqpSession


@dataclass(slots=True)
class AttachReceived:
    """Answer with `accept_attach` or `refuse`, unless we asked for the link."""

    link: AmqpLink
    attach: Attach


@dataclass(slots=True)
class FlowReceived:
    """The credit or the drain flag of a link may have changed."""

    link: AmqpLink


@dataclass(slots=True)
class SessionFlowReceived:
    """The window of a session may have opened: links without credit news may send again."""

    session: AmqpSession


@dataclass(slots=True)
class TransferReceived:
    """One whole delivery. Unless it is settled, settle it."""

    link: AmqpLink
    delivery_id: int
    delivery_tag: bytes
    message_format: int
    settled: bool
    state: object
    payload: bytes


@dataclass(slots=True)
class TransferRunReceived:
    """Whole deliveries without state, one after the other. Unless they are settled, settle them.

    For links that ask for it (`AmqpLink.takes_runs`): an event for each is a large part of what
    small deliveries cost.
    """

    link: AmqpLink
    message_format: int
    settled: bool
    delivery_ids: list[int]
    payloads: list[bytes]


@dataclass(slots=True)
class OversizedTransferReceived:
    """One whole delivery larger than the link's `message_size_max`; its bytes were not kept."""

    link: AmqpLink
    delivery_id: int
    delivery_tag: bytes
    settled: bool
    state: object
    size: int


@dataclass(slots=True)
class DispositionReceived:
    """The peer told the state of deliveries that we sent; those it settled are forgotten."""

    link: AmqpLink
    deliveries: list[OutgoingDelivery]
    state: object
    settled: bool


@dataclass(slots=True)
class SenderDispositionReceived:
    """The peer, as a sender, told the state of deliveries that it sent: our outcome arrived."""

    session: AmqpSession
    first_id: int
    last_id: int
    state: object
    settled: bool


@dataclass(slots=True)
class DetachReceived:
    """The peer detached, or answered our Detach. Answer with `detach`, which knows if it is due."""

    link: AmqpLink
    closed: bool
    error: AmqpError | None


@dataclass(slots=True)
class EndReceived:
    """A session and all its links are over; the engine has answered."""

    session: AmqpSession
    error: AmqpError | None


@dataclass(slots=True)
class SessionFailed:
    """The peer broke a rule of the session; the engine has ended it, all its links are over."""

    session: AmqpSession
    condition: str
    description: str


@dataclass(slots=True)
class CloseReceived:
    """Answer with `AmqpConnection.close` unless we closed first. Nothing more is read."""

    error: AmqpError | None


@dataclass(slots=True)
class ConnectionFailed:
    """The peer broke the protocol. The answer is queued: flush it and close the socket."""

    condition: str
    description: str


Event: TypeAlias = (
    SaslInitReceived
    | OpenReceived
    | BeginReceived
    | AttachReceived
    | FlowReceived
    | SessionFlowReceived
    | TransferReceived
    | TransferRunReceived
    | OversizedTransferReceived
    | DispositionReceived
    | SenderDispositionReceived
    | DetachReceived
    | EndReceived
    | SessionFailed
    | CloseReceived
    | ConnectionFailed
)
