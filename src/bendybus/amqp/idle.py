"""Silence in both directions (AMQP 1.0 §2.4.5), for a caller that has the clock.

The hot path only sets a flag when bytes pass; a tick turns flags into times. What was sent since
the last tick counts as sent at that tick, what was received as received now, so that we heartbeat
rather too early and give up rather too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PEER_TIMEOUT_MIN_MS: Final = 100
"""A peer that wants heartbeats more often than twice in this time is refused (§2.4.5)."""


@dataclass(slots=True)
class IdleTimer:
    """When to heartbeat and when to give up."""

    own_timeout_ms: int
    """What we announce; 0 is none. We wait for twice as long."""
    peer_timeout_ms: int = 0
    has_sent: bool = False
    has_received: bool = False
    ticked_ms: int | None = None
    sent_ms: int = 0
    received_ms: int = 0

    def tick(self, now_ms: int) -> tuple[bool, bool]:
        """Return whether a heartbeat is due and whether the peer has been silent for too long."""
        previous_ms = now_ms if self.ticked_ms is None else self.ticked_ms
        if self.has_sent or self.ticked_ms is None:
            self.sent_ms = previous_ms
        if self.has_received or self.ticked_ms is None:
            self.received_ms = now_ms
        self.has_sent = self.has_received = False
        self.ticked_ms = now_ms
        is_heartbeat_due = 0 < self.peer_timeout_ms <= 2 * (now_ms - self.sent_ms)
        is_peer_gone = 0 < 2 * self.own_timeout_ms <= now_ms - self.received_ms
        return is_heartbeat_due, is_peer_gone

    def next_tick_ms(self, now_ms: int) -> int | None:
        """Return after how many milliseconds the next tick is due, or None for never."""
        dues: list[int] = []
        since_ms = now_ms if self.ticked_ms is None else self.ticked_ms
        if self.peer_timeout_ms:
            # What goes out right after a tick keeps the peer quiet for only half its time-out.
            dues.append(since_ms + self.peer_timeout_ms // 4)
        if self.own_timeout_ms:
            dues.append(since_ms + self.own_timeout_ms // 2)
        return max(0, min(dues) - now_ms) if dues else None
