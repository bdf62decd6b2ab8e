"""Serial numbers of 32 bits, which wrap around (RFC 1982; AMQP 1.0 §2.8.10)."""

from __future__ import annotations

from typing import Final

SERIAL_MASK: Final = 2**32 - 1
SERIAL_HALF: Final = 2**31
DISTANCE_MAX: Final = SERIAL_HALF - 1
"""Larger distances cannot be told from negative ones, so credits and windows are cut to this."""


def serial_distance(ahead: int, behind: int) -> int:
    """Return how far `ahead` is in front of `behind`; negative when it is not in front."""
    return ((ahead - behind + SERIAL_HALF) & SERIAL_MASK) - SERIAL_HALF
