"""A receiver that asks for a session: its Attach is answered when it has one, or gets none."""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bendybus.amqp.performatives import Attach
from bendybus.amqp.session import AmqpLink
from bendybus.amqp.terminus import Source
from bendybus.amqp.values import Described, Long, Symbol
from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.sessions import accept_session
from bendybus.model.errors import (
    ArgumentInvalid,
    ArgumentOutOfRange,
    BusError,
    NotImplementedYet,
    OperationTimeout,
)
from bendybus.model.ids import Instant
from bendybus.model.limits import KEY_LENGTH_MAX
from bendybus.server.outlet import Outlet
from bendybus.server.translate import amqp_error

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
SHARED_SESSION_FILTER: Final = Symbol("com.microsoft:non-exclusive-session-filter")
TIMEOUT: Final = Symbol("com.microsoft:timeout")
LOCKED_UNTIL: Final = Symbol("com.microsoft:locked-until-utc")

ACCEPT_SECONDS: Final = 65.0
# Asking the stores takes a moment, however little time the client allows.
ACCEPT_SECONDS_MIN: Final = 0.1

# A .NET tick is 100 ns, counted from the year 1.
_TICKS_UNTIL_1970: Final = 621_355_968_000_000_000
_TICKS_PER_MILLISECOND: Final = 10_000


@dataclass(frozen=True, slots=True)
class SessionWish:
    """Which session a client asks for, in the form in which it must be told what it got."""

    source: Source
    session_id: str | None
    # Some clients wrap the id into a described value, and understand nothing else.
    descriptor: object
    seconds: float

    def granted_source(self, session_id: str) -> Source:
        """Return the source as it is answered: with the id of the session that was given."""
        value: object = session_id
        if self.descriptor is not None:
            value = Described(self.descriptor, session_id)
        return dataclasses.replace(self.source, filter={SESSION_FILTER: value})


def session_wish(attach: Attach) -> SessionWish | None:
    """Return the wish for a session, or None if the client asks for none."""
    source = attach.source
    if not isinstance(source, Source) or source.filter is None:
        return None
    if SHARED_SESSION_FILTER in source.filter:
        raise NotImplementedYet("Sessions that several receivers share are not served.")
    if SESSION_FILTER not in source.filter:
        return None
    value: object = source.filter[SESSION_FILTER]
    descriptor: object = None
    if isinstance(value, Described):
        descriptor = value.descriptor
        value = value.value
    if value is not None and not isinstance(value, str):
        raise ArgumentInvalid(f"The value of {SESSION_FILTER} must be a string or null.")
    if value is not None and len(value) > KEY_LENGTH_MAX:
        raise ArgumentOutOfRange(f"A SessionId has at most {KEY_LENGTH_MAX} characters.")
    return SessionWish(source, value, descriptor, _seconds(attach))


def granted_properties(held: HeldSession) -> dict[object, object]:
    """Return the properties of the answer: until when the session is locked."""
    return {LOCKED_UNTIL: Long(ticks_of(held.locked_until))}


def ticks_of(instant: Instant) -> int:
    """Return an instant as .NET counts it."""
    return _TICKS_UNTIL_1970 + instant * _TICKS_PER_MILLISECOND


def _seconds(attach: Attach) -> float:
    given = (attach.properties or {}).get(TIMEOUT)
    if isinstance(given, bool) or not isinstance(given, int):
        return ACCEPT_SECONDS
    return max(given / 1000, ACCEPT_SECONDS_MIN)


class PendingSession:
    """Asks for a session on behalf of a link whose Attach waits for the answer.

    One task; nothing else of the connection waits for it.
    """

    def __init__(
        self,
        outlet: Outlet,
        link: AmqpLink,
        sub_queue: ServedSubQueue,
        wish: SessionWish,
        clock: Clock,
        grant: Callable[[HeldSession | None], None],
    ) -> None:
        self.link = link
        self._outlet = outlet
        self.sub_queue = sub_queue
        self._wish = wish
        self._clock = clock
        # Puts in place what serves the link from now on; None if it was refused.
        self._grant = grant
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_end)

    def cancel(self) -> None:
        """Ask no more: the link is gone. A session that comes too late is given back."""
        self._task.cancel()

    async def _run(self) -> None:
        wish = self._wish
        try:
            async with asyncio.timeout(wish.seconds):
                held = await accept_session(self.sub_queue, wish.session_id, self._clock)
        except TimeoutError:
            allotted = timedelta(seconds=round(wish.seconds))
            self._refuse(
                OperationTimeout(
                    "The operation did not complete within the allotted timeout of"
                    f" {allotted!s:0>8}."
                )
            )
        except BusError as error:
            self._refuse(error)
        else:
            self._grant(held)
        self._outlet.flush_soon()

    def _refuse(self, error: BusError) -> None:
        self._grant(None)
        self.link.refuse(amqp_error(error, self._clock.now()))

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._outlet.fail(error)
