"""The nine bodies of AMQP frames (AMQP 1.0 §2.7), and one place to import all composites from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from bendybus.amqp.composite import (
    AnyField,
    BooleanField,
    OptionalBinary,
    OptionalBoolean,
    OptionalMap,
    OptionalString,
    OptionalSymbols,
    OptionalUbyte,
    OptionalUint,
    OptionalUlong,
    OptionalUshort,
    StringField,
    UbyteField,
    UintField,
    UshortField,
    append_composite,
    compose,
    composite,
    encode_composite,
)
from bendybus.amqp.decode import Buffer, decode_value
from bendybus.amqp.outcomes import (
    Accepted,
    AmqpError,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Modified,
    OptionalError,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from bendybus.amqp.sasl import (
    SaslChallenge,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from bendybus.amqp.terminus import Coordinator, Source, Target
from bendybus.amqp.values import DecodeError

__all__ = [
    "Accepted",
    "AmqpError",
    "Attach",
    "Begin",
    "Close",
    "Coordinator",
    "Declare",
    "Declared",
    "DeliveryState",
    "Detach",
    "Discharge",
    "Disposition",
    "End",
    "Flow",
    "Modified",
    "Open",
    "Performative",
    "Received",
    "Rejected",
    "Released",
    "SaslChallenge",
    "SaslCode",
    "SaslFrame",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "SaslResponse",
    "Source",
    "Target",
    "TransactionalState",
    "Transfer",
    "append_composite",
    "compose",
    "decode_performative",
    "decode_sasl_body",
    "encode_composite",
]

UINT_MAX: Final = 2**32 - 1
USHORT_MAX: Final = 2**16 - 1


@composite(0x10, "amqp:open:list")
@dataclass(slots=True, kw_only=True)
class Open:
    """Limits and name of one side of a connection (§2.7.1)."""

    container_id: StringField
    hostname: OptionalString = None
    max_frame_size: UintField = UINT_MAX
    channel_max: UshortField = USHORT_MAX
    idle_time_out: OptionalUint = None
    outgoing_locales: OptionalSymbols = None
    incoming_locales: OptionalSymbols = None
    offered_capabilities: OptionalSymbols = None
    desired_capabilities: OptionalSymbols = None
    properties: OptionalMap = None


@composite(0x11, "amqp:begin:list")
@dataclass(slots=True, kw_only=True)
class Begin:
    """Begin a session on a channel, or answer one (§2.7.2)."""

    remote_channel: OptionalUshort = None
    next_outgoing_id: UintField
    incoming_window: UintField
    outgoing_window: UintField
    handle_max: UintField = UINT_MAX
    offered_capabilities: OptionalSymbols = None
    desired_capabilities: OptionalSymbols = None
    properties: OptionalMap = None


@composite(0x12, "amqp:attach:list")
@dataclass(slots=True, kw_only=True)
class Attach:
    """Attach a link to a session, or answer one (§2.7.3). Role: True is receiver."""

    name: StringField
    handle: UintField
    role: BooleanField
    snd_settle_mode: UbyteField = 2
    rcv_settle_mode: UbyteField = 0
    source: AnyField = None
    target: AnyField = None
    unsettled: OptionalMap = None
    incomplete_unsettled: BooleanField = False
    initial_delivery_count: OptionalUint = None
    max_message_size: OptionalUlong = None
    offered_capabilities: OptionalSymbols = None
    desired_capabilities: OptionalSymbols = None
    properties: OptionalMap = None


@composite(0x13, "amqp:flow:list")
@dataclass(slots=True, kw_only=True)
class Flow:
    """Session windows, and link credit when it has a handle (§2.7.4)."""

    next_incoming_id: OptionalUint = None
    incoming_window: UintField
    next_outgoing_id: UintField
    outgoing_window: UintField
    handle: OptionalUint = None
    delivery_count: OptionalUint = None
    link_credit: OptionalUint = None
    available: OptionalUint = None
    drain: BooleanField = False
    echo: BooleanField = False
    properties: OptionalMap = None


@composite(0x14, "amqp:transfer:list")
@dataclass(slots=True, kw_only=True)
class Transfer:
    """A message or a part of one; its bytes follow the performative in the frame (§2.7.5)."""

    handle: UintField
    delivery_id: OptionalUint = None
    delivery_tag: OptionalBinary = None
    message_format: OptionalUint = None
    settled: OptionalBoolean = None
    more: BooleanField = False
    rcv_settle_mode: OptionalUbyte = None
    state: AnyField = None
    resume: BooleanField = False
    aborted: BooleanField = False
    batchable: BooleanField = False


@composite(0x15, "amqp:disposition:list")
@dataclass(slots=True, kw_only=True)
class Disposition:
    """Change of state of a range of deliveries (§2.7.6). Role: True is receiver."""

    role: BooleanField
    first: UintField
    last: OptionalUint = None
    settled: BooleanField = False
    state: AnyField = None
    batchable: BooleanField = False


@composite(0x16, "amqp:detach:list")
@dataclass(slots=True, kw_only=True)
class Detach:
    """Detach a link; for good when closed (§2.7.7)."""

    handle: UintField
    closed: BooleanField = False
    error: OptionalError = None


@composite(0x17, "amqp:end:list")
@dataclass(slots=True)
class End:
    """End a session (§2.7.8)."""

    error: OptionalError = None


@composite(0x18, "amqp:close:list")
@dataclass(slots=True)
class Close:
    """Close a connection (§2.7.9)."""

    error: OptionalError = None


Performative: TypeAlias = (
    Open | Begin | Attach | Flow | Transfer | Disposition | Detach | End | Close
)
SaslFrame: TypeAlias = SaslMechanisms | SaslInit | SaslChallenge | SaslResponse | SaslOutcome

_PERFORMATIVES: Final = (Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close)
_SASL_FRAMES: Final = (SaslMechanisms, SaslInit, SaslChallenge, SaslResponse, SaslOutcome)


def decode_performative(buf: Buffer, offset: int) -> tuple[Performative, int]:
    """Return the performative that begins at `offset` and the offset of what follows it."""
    described, end = decode_value(buf, offset)
    body = compose(described)
    if not isinstance(body, _PERFORMATIVES):
        raise DecodeError("the body of a frame is not a performative")
    return body, end


def decode_sasl_body(buf: Buffer, offset: int) -> SaslFrame:
    """Return the body of a SASL frame."""
    body = compose(decode_value(buf, offset)[0])
    if not isinstance(body, _SASL_FRAMES):
        raise DecodeError("the body of a SASL frame is not one")
    return body
