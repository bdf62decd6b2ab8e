"""Frames of the SASL security layer (AMQP 1.0 §5.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from bendybus.amqp.composite import (
    BinaryField,
    OptionalBinary,
    OptionalString,
    SymbolField,
    SymbolsField,
    UbyteField,
    composite,
)


class SaslCode(IntEnum):
    """Result of a SASL exchange (§5.3.3.6)."""

    OK = 0
    AUTH = 1
    SYS = 2
    SYS_PERM = 3
    SYS_TEMP = 4


@composite(0x40, "amqp:sasl-mechanisms:list")
@dataclass(frozen=True, slots=True)
class SaslMechanisms:
    """What the server offers."""

    mechanisms: SymbolsField


@composite(0x41, "amqp:sasl-init:list")
@dataclass(frozen=True, slots=True)
class SaslInit:
    """What the client chose."""

    mechanism: SymbolField
    initial_response: OptionalBinary = None
    hostname: OptionalString = None


@composite(0x42, "amqp:sasl-challenge:list")
@dataclass(frozen=True, slots=True)
class SaslChallenge:
    """The server asks on."""

    challenge: BinaryField


@composite(0x43, "amqp:sasl-response:list")
@dataclass(frozen=True, slots=True)
class SaslResponse:
    """The client's answer to a challenge."""

    response: BinaryField


@composite(0x44, "amqp:sasl-outcome:list")
@dataclass(frozen=True, slots=True)
class SaslOutcome:
    """The end of the exchange."""

    code: UbyteField
    additional_data: OptionalBinary = None
