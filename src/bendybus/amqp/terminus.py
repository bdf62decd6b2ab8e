"""Where a link begins and ends (AMQP 1.0 §3.5.3, §3.5.4, §4.5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from bendybus.amqp.composite import (
    AnyField,
    BooleanField,
    OptionalMap,
    OptionalSymbol,
    OptionalSymbols,
    SymbolField,
    UintField,
    composite,
)


@composite(0x28, "amqp:source:list")
@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where messages come from."""

    address: AnyField = None
    durable: UintField = 0
    expiry_policy: SymbolField = "session-end"
    timeout: UintField = 0
    dynamic: BooleanField = False
    dynamic_node_properties: OptionalMap = None
    distribution_mode: OptionalSymbol = None
    filter: OptionalMap = None
    default_outcome: AnyField = None
    outcomes: OptionalSymbols = None
    capabilities: OptionalSymbols = None


@composite(0x29, "amqp:target:list")
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where messages go."""

    address: AnyField = None
    durable: UintField = 0
    expiry_policy: SymbolField = "session-end"
    timeout: UintField = 0
    dynamic: BooleanField = False
    dynamic_node_properties: OptionalMap = None
    capabilities: OptionalSymbols = None


@composite(0x30, "amqp:coordinator:list")
@dataclass(frozen=True, slots=True)
class Coordinator:
    """Instead of a target: the place that declares and discharges transactions."""

    capabilities: OptionalSymbols = None
