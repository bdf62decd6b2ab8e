"""A request at the bulk door, and what is known of its kind."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, NamedTuple

from bendybus.broker.clock import Clock
from bendybus.flight.body import Body
from bendybus.flight.calls import Call
from bendybus.flight.desk import Desk

Told = dict[str, Any]


class Asked(NamedTuple):
    """A request: who asks whom for what."""

    desk: Desk
    call: Call
    body: Body
    clock: Clock


@dataclass(frozen=True, slots=True)
class KnownAction:
    """An action: what it says of itself, the fields that it takes, and what does it."""

    told: str
    fields: tuple[str, ...]
    do: Callable[[Asked], Coroutine[Any, Any, Told]]
    # Whether it may take minutes, for it goes through many messages.
    is_long: bool = False
