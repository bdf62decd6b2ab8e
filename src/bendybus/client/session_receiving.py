"""A receiver that holds a session: nobody else receives from it meanwhile."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.amqp.terminus import Source
from bendybus.amqp.values import Symbol, Uint
from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.errors import ClientError, SessionLockLost, SessionUnavailable
from bendybus.client.receiving import Receiving
from bendybus.client.receiving_end import ReceivingEnd
from bendybus.client.steps import Flush, Step, wait_for

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
TIMEOUT: Final = Symbol("com.microsoft:timeout")
LOCKED_UNTIL: Final = Symbol("com.microsoft:locked-until-utc")

_FIRST_YEAR: Final = datetime(1, 1, 1, tzinfo=UTC)
_TICKS_PER_MICROSECOND: Final = 10


class SessionReceiving(Receiving):
    """What a receiver of one session does, step by step.

    The lock on a session ends with the link, so it is never attached again by itself: somebody
    else may have had the session in between.
    """

    def __init__(
        self, connector: Connector, path: str, *, prefetch: int, session_id: str | None
    ) -> None:
        super().__init__(connector, path, is_deleting=False, prefetch=prefetch)
        self.session_id = session_id
        """None means the next session that has messages, until one is accepted."""
        self.locked_until: datetime | None = None
        self._server_timeout_ms = 0
        self._was_accepted = False

    def accept(self, timeout: float) -> Step[None]:
        """Lock the session; wait up to `timeout` seconds for one if any will do."""
        now = yield Flush()
        self._server_timeout_ms = int(1000 * timeout)
        # The broker says by itself that the time is up; a little later we stop believing in it.
        try:
            end = yield from self.attached(now + timeout + max(1.0, timeout / 4))
        except BaseException:
            self._take_back()
            raise
        self._was_accepted = True
        assert end.attach is not None
        source, properties = end.attach.source, end.attach.properties or {}
        granted = (source.filter or {}).get(SESSION_FILTER) if isinstance(source, Source) else None
        if not isinstance(granted, str):
            raise SessionUnavailable("The broker did not say which session it gave.")
        self.session_id = str(granted)
        self.locked_until = _moment_of_ticks(properties.get(LOCKED_UNTIL))

    def _take_back(self) -> None:
        """Detach, or a session that comes too late would be locked for nobody."""
        connection, end = self.connector.connection, self._end
        if connection is not None and end is not None and end.failure is None:
            connection.detach(end, SessionUnavailable("The session is no longer wanted."))

    @property
    def accepted_id(self) -> str:
        """The session that is held."""
        assert self.session_id is not None, "accept it first"
        return self.session_id

    def renew(self, deadline: float) -> Step[datetime]:
        """Hold the session for another lock duration; return until when."""
        self.locked_until = yield from self.entity.renew_session(self.accepted_id, deadline)
        return self.locked_until

    def close(self, deadline: float) -> Step[None]:
        """Give the session back. When this returns, others can have it, if the broker answered."""
        connection, end = self.connector.connection, self._end
        yield from super().close(deadline)
        if connection is not None and end is not None:
            with suppress(ClientError):
                yield from wait_for(
                    lambda: end.is_gone, connection.check, deadline, "Giving the session back"
                )

    def ask_for_link(self, connection: Connection) -> ReceivingEnd:
        """Ask for the session."""
        if self._was_accepted:
            raise SessionLockLost(
                f"The session '{self.session_id}' was lost with its link; accept it again."
            )
        return connection.attach_receiver(
            self.path,
            is_deleting=self.is_deleting,
            prefetch=self.prefetch,
            filters={SESSION_FILTER: self.session_id},
            properties={TIMEOUT: Uint(self._server_timeout_ms)},
        )


def _moment_of_ticks(ticks: object) -> datetime | None:
    """Return the time that a count of 100 nanoseconds since the year 1 means."""
    if not isinstance(ticks, int):
        return None
    try:
        return _FIRST_YEAR + timedelta(microseconds=int(ticks) // _TICKS_PER_MICROSECOND)
    except OverflowError:
        return None
