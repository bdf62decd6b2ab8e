"""What one side of a connection offers and where its limits are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Role(Enum):
    """Which side of a connection we are."""

    SERVER = auto()
    CLIENT = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Limits are what we advertise and hold the peer to; windows are counted in frames."""

    container_id: str
    hostname: str | None = None
    frame_size_max: int = 65536
    channel_max: int = 4999
    handle_max: int = 4999
    idle_timeout_ms: int = 120_000
    """How long a silence we announce to tolerate; we wait twice as long. 0: for ever."""
    incoming_window: int = 5000
    outgoing_window: int = 5000
    sasl_mechanisms: tuple[str, ...] = ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")
    """A server offers these, in this order."""
    sasl_username: str | None = None
    """A client with a name uses PLAIN, one without ANONYMOUS."""
    sasl_password: str = ""
    message_size_max: int = 1024 * 1024
    """Of one delivery, until a link sets its own `message_size_max`."""
    link_count_max: int = 5000
    """Links on the whole connection; further ones are refused one by one."""
    paused_bytes_max: int = 1024 * 1024
    """What may arrive while the caller thinks about a SASL response."""
