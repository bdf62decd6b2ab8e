"""How a messaging store is doing, as operators see it."""

from dataclasses import dataclass
from enum import Enum


class StoreState(Enum):
    """Offline was asked for by an operator; failed happened by itself."""

    ONLINE = "online"
    OFFLINE = "offline"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """One store at one moment. `reason` says why it is not online."""

    number: int
    state: StoreState
    reason: str | None = None
    path: str
    size_bytes: int
    fragments: int
