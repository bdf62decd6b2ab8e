"""Delivery states and outcomes (AMQP 1.0 §3.4, §4.5). Frozen, so one instance can serve many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from bendybus.amqp.composite import (
    AnyField,
    BinaryField,
    OptionalBoolean,
    OptionalMap,
    OptionalString,
    SymbolField,
    UintField,
    UlongField,
    Wire,
    composite,
)


@composite(0x1D, "amqp:error:list")
@dataclass(frozen=True, slots=True)
class AmqpError:
    """Why a link, session or connection ended or a delivery was rejected (§2.8.14)."""

    condition: SymbolField
    description: OptionalString = None
    info: OptionalMap = None


OptionalError: TypeAlias = Annotated[AmqpError | None, Wire.ERROR]


@composite(0x23, "amqp:received:list")
@dataclass(frozen=True, slots=True)
class Received:
    """How far a delivery came (§3.4.1)."""

    section_number: UintField
    section_offset: UlongField


@composite(0x24, "amqp:accepted:list")
@dataclass(frozen=True, slots=True)
class Accepted:
    """Taken (§3.4.2)."""


@composite(0x25, "amqp:rejected:list")
@dataclass(frozen=True, slots=True)
class Rejected:
    """Invalid or unprocessable (§3.4.3)."""

    error: OptionalError = None


@composite(0x26, "amqp:released:list")
@dataclass(frozen=True, slots=True)
class Released:
    """Not and will not be acted upon (§3.4.4)."""


@composite(0x27, "amqp:modified:list")
@dataclass(frozen=True, slots=True)
class Modified:
    """Released, but changed (§3.4.5). None and False differ on the wire only."""

    delivery_failed: OptionalBoolean = None
    undeliverable_here: OptionalBoolean = None
    message_annotations: OptionalMap = None


@composite(0x31, "amqp:declare:list")
@dataclass(frozen=True, slots=True)
class Declare:
    """Body of a message to the coordinator: begin a transaction (§4.5.2)."""

    global_id: AnyField = None


@composite(0x32, "amqp:discharge:list")
@dataclass(frozen=True, slots=True)
class Discharge:
    """Body of a message to the coordinator: commit, or roll back when `fail` (§4.5.3)."""

    txn_id: BinaryField
    fail: OptionalBoolean = None


@composite(0x33, "amqp:declared:list")
@dataclass(frozen=True, slots=True)
class Declared:
    """Outcome of a declare: the transaction's id (§4.5.5)."""

    txn_id: BinaryField


@composite(0x34, "amqp:transactional-state:list")
@dataclass(frozen=True, slots=True)
class TransactionalState:
    """This delivery, or its settlement, is part of a transaction (§4.5.8)."""

    txn_id: BinaryField
    outcome: AnyField = None


def is_final(state: object) -> bool:
    """Whether a receiver has said what is to become of a delivery, within a transaction or not.

    Otherwise it only tells how far it has come (§3.4.1).
    """
    if isinstance(state, TransactionalState):
        state = state.outcome
    return not (state is None or isinstance(state, Received))


DeliveryState: TypeAlias = (
    Received | Accepted | Rejected | Released | Modified | Declared | TransactionalState
)
