"""receive: take messages as they come, on a link that is attached again after every loss."""

from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from bendybus.client.connecting import RETRY_SECONDS_MIN, Connector
from bendybus.client.connection import Connection
from bendybus.client.errors import ClientClosed, ClientError, MessageNotLocked
from bendybus.client.managing import ManagedEntity
from bendybus.client.message import ReceivedMessage
from bendybus.client.receiving_end import ReceivingEnd
from bendybus.client.settlement import Settlement
from bendybus.client.settling import settle
from bendybus.client.steps import Flush, Step, Wait, pause, wait_for
from bendybus.client.transacting import Transacting

TOKEN_LOOK_SECONDS: Final = 60.0
"""While nothing comes, so often the token is looked at, lest the broker forget us."""


class Receiving:
    """What a receiver does, step by step.

    Without prefetch the broker sends only during a call, and not more than the call asks for.
    With it messages wait here under lock, and their locks may end meanwhile.
    """

    def __init__(
        self, connector: Connector, path: str, *, is_deleting: bool, prefetch: int
    ) -> None:
        self.entity = ManagedEntity(connector, path)
        self.connector = connector
        self.path = path
        self.is_deleting = is_deleting
        self.session_id: str | None = None
        self.prefetch = prefetch
        self._end: ReceivingEnd | None = None
        self._rest: deque[ReceivedMessage] = deque()
        """What came on a link that is gone. Locks outlive links."""
        self._is_closed = False

    def receive(self, count: int, until: float, patience: float) -> Step[list[ReceivedMessage]]:
        """Return up to `count` messages as soon as there is one, or none at `until`.

        What is needed besides, attaching or after a loss connecting again, may take `patience`
        seconds each time.
        """
        while not self._rest:
            now = yield Flush()
            end = yield from self.attached(now + patience)
            if self._rest:
                break
            try:
                yield from self._fill(end, count, until, patience)
            except ClientError:
                now = yield Flush()
                if not self._can_attach_again(end) or now >= until:
                    raise
                yield from pause(now + RETRY_SECONDS_MIN)
            else:
                return self._take(end, count)
        return [self._rest.popleft() for _ in range(min(count, len(self._rest)))]

    def attached(self, deadline: float) -> Step[ReceivingEnd]:
        """Return a link that is open."""
        return (
            yield from self.connector.persistently(
                self.path, deadline, lambda connection: self._attach(connection, deadline)
            )
        )

    def settle(
        self,
        messages: Sequence[ReceivedMessage],
        settlement: Settlement,
        deadline: float,
        transaction: Transacting | None = None,
    ) -> Step[None]:
        """Settle messages and wait until the broker confirms. Raises if any failed."""
        return settle(
            self.entity,
            messages,
            settlement,
            deadline,
            transaction=transaction,
            session_id=self.session_id,
        )

    def renew_lock(self, message: ReceivedMessage, deadline: float) -> Step[datetime]:
        """Hold a message for another lock duration; return until when."""
        if message.lock_token is None:
            raise MessageNotLocked("The message has no lock that could be renewed.")
        until = yield from self.entity.renew_lock(message.lock_token, deadline)
        message.locked_until = until
        return until

    def receive_deferred(
        self, numbers: Sequence[int], deadline: float
    ) -> Step[list[ReceivedMessage]]:
        """Receive messages that were set aside, by their numbers."""
        return self.entity.receive_deferred(
            numbers, deadline, is_deleting=self.is_deleting, session_id=self.session_id
        )

    def close(self, deadline: float) -> Step[None]:
        """Give back what nobody took, and detach. What was taken stays locked."""
        self._is_closed = True
        connection, end = self.connector.connection, self._end
        if connection is None or end is None or not end.is_open:
            return
        end.ask_no_more()
        # If the broker is gone or does not answer, locks end by themselves.
        with suppress(ClientError):
            yield from wait_for(lambda: end.is_quiet, end.check, deadline, "Taking credit back")
            end.release()
        if end.failure is None:
            connection.detach(end, ClientClosed("The receiver is closed."))
        yield Flush()

    def ask_for_link(self, connection: Connection) -> ReceivingEnd:
        """Ask for a link of the kind that this receiver has."""
        return connection.attach_receiver(
            self.path, is_deleting=self.is_deleting, prefetch=self.prefetch
        )

    def _attach(self, connection: Connection, deadline: float) -> Step[ReceivingEnd]:
        if self._is_closed:
            raise ClientClosed("The receiver is closed.")
        if self._end is None or self._end.failure is not None:
            if self._end is not None:
                self._rest.extend(self._take(self._end, len(self._end.arrived)))
            self._end = self.ask_for_link(connection)
        end = self._end
        yield from wait_for(lambda: end.is_open, end.check, deadline, "Attaching the receiver")
        return end

    def _can_attach_again(self, end: ReceivingEnd) -> bool:
        return end.failure is not None and end.failure.is_retryable

    def _fill(self, end: ReceivingEnd, count: int, until: float, patience: float) -> Step[None]:
        """Wait until something has come, or until it is time to give up."""
        if self.prefetch:
            end.refill()
        else:
            end.ask(count)
        now = yield Flush()
        while not end.arrived and now < until:
            end.check()
            yield from self.connector.authorized(self.path, now + patience)
            now = yield Wait(min(until, now + TOKEN_LOOK_SECONDS))
        if not end.arrived:
            end.check()
        is_short = not end.arrived if self.prefetch else len(end.arrived) < count
        if is_short and not end.is_quiet:
            yield from self._stop_asking(end, now + patience)

    def _stop_asking(self, end: ReceivingEnd, deadline: float) -> Step[None]:
        """Take the credit back. The broker first sends what it has.

        So a receive that comes back empty is the broker's own word, and nothing comes, and is
        locked, while nobody receives.
        """
        end.ask_no_more()

        def check() -> None:
            if not end.arrived:
                end.check()

        yield from wait_for(
            lambda: end.is_quiet or (end.failure is not None and bool(end.arrived)),
            check,
            deadline,
            "Taking credit back",
        )

    def _take(self, end: ReceivingEnd, count: int) -> list[ReceivedMessage]:
        messages = [
            ReceivedMessage(event.payload)
            if event.settled
            else ReceivedMessage.delivered(
                event.payload, event.delivery_tag, end, event.delivery_id
            )
            for event in end.take(count)
        ]
        if self.prefetch and end.failure is None:
            end.refill()
        return messages
