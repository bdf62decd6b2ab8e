"""Management requests about sessions. Most are for who holds the session, and nobody else."""

from collections.abc import Callable
from typing import Any, Final

from bendybus.amqp.values import AmqpArray, Int, Timestamp
from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.session_listing import SessionListing
from bendybus.broker.sessions import (
    check_sessions,
    renew_session,
    session_state,
    set_session_state,
)
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange, SessionLockLost
from bendybus.model.ids import Instant
from bendybus.server.request_body import Response, nothing_found, number, succeeded, text

# The end of the year 9999, or its last millisecond where a client cuts off what is below that,
# means: all that have messages or a state.
_EVERY_SESSION_FROM: Final = 253_402_300_799_999
_SKIP_MAX: Final = 2**31 - 1

# Finds the session of an id among those that the asking connection holds: by the link of a name,
# or by any.
FindSession = Callable[[str, str | None], HeldSession | None]


class SessionRequests:
    """Answers what is asked about the sessions of one sub-queue, by one connection."""

    def __init__(self, sub_queue: ServedSubQueue, clock: Clock, find: FindSession) -> None:
        self._sub_queue = sub_queue
        self._clock = clock
        self._find = find
        # The link that the request being answered belongs to, if it says so. Two receivers of one
        # connection may have had the same session, one after the other.
        self.link_name: str | None = None
        self._listing = SessionListing(sub_queue)

    def held(self, body: dict[str, Any]) -> HeldSession:
        """Return the session that a request names. Raises `SessionLockLost` if another has it."""
        check_sessions(self._sub_queue)
        session_id = text(body, "session-id")
        if session_id is None:
            raise ArgumentInvalid("session-id must be a string.")
        held = self._find(session_id, self.link_name)
        if held is None or held.has_ended(self._clock.now()):
            raise SessionLockLost.ended()
        return held

    async def renew(self, body: dict[str, Any]) -> Response:
        """Hold the session longer."""
        expires_at = await renew_session(self._sub_queue, self.held(body), self._clock)
        return succeeded(), {"expiration": Timestamp(expires_at)}

    async def state(self, body: dict[str, Any]) -> Response:
        """Return what is kept with the session."""
        state = await session_state(self._sub_queue, self.held(body), self._clock)
        return succeeded(), {"session-state": state}

    async def set_state(self, body: dict[str, Any]) -> Response:
        """Keep something with the session, or nothing."""
        state = body.get("session-state")
        if state is not None and not isinstance(state, bytes):
            raise ArgumentInvalid("session-state must be binary or null.")
        await set_session_state(self._sub_queue, self.held(body), state, self._clock)
        return succeeded(), None

    async def list(self, body: dict[str, Any]) -> Response:
        """Return ids of sessions; nobody need hold them."""
        skip, top = number(body, "skip", 0), number(body, "top", 100)
        if not 0 <= skip <= _SKIP_MAX or top < 1:
            raise ArgumentOutOfRange("skip must be at least 0, and top at least 1.")
        time = number(body, "last-updated-time", _EVERY_SESSION_FROM)
        changed_since = None if time >= _EVERY_SESSION_FROM else Instant(time)
        ids = await self._listing.page(changed_since, skip, top)
        if not ids:
            return nothing_found("sessions", "com.microsoft:session-not-found"), None
        # Java goes on from the number that we return.
        return succeeded(), {
            "skip": Int(skip + len(ids)),
            "sessions-ids": AmqpArray(str, tuple(ids)),
        }
