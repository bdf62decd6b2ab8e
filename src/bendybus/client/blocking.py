"""The blocking client: for programs, scripts and threads that may wait.

Use one client per thread. It keeps one connection, made when it is first needed and made again
after a loss. Between calls nothing runs; a broker that hears nothing for minutes ends the
connection, and the next call makes a new one.
"""

import math
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Self, TypeVar

from bendybus.client import settlement
from bendybus.client.blocking_io import BlockingIo
from bendybus.client.calls import CLOSE_SECONDS, TIMEOUT_SECONDS, connector_for, listed
from bendybus.client.connecting import Connector
from bendybus.client.entity_path import entity_path
from bendybus.client.going_through import OnProgress, Progress, whole_run
from bendybus.client.managing import DELETED_PER_CALL_MAX, DeleteWish, ManagedEntity
from bendybus.client.message import Message, MessageState, ReceivedMessage
from bendybus.client.purging import Purge, Purging
from bendybus.client.receive_mode import ReceiveMode
from bendybus.client.receiving import Receiving
from bendybus.client.redriving import Redrive, Redriving
from bendybus.client.sending import Sending
from bendybus.client.session_receiving import SessionReceiving
from bendybus.client.steps import Step
from bendybus.client.transacting import Transacting
from bendybus.model.ids import SubQueue

T = TypeVar("T")


class _Caller:
    """Runs the steps of one client within the time that a call may take."""

    def __init__(self, timeout: float) -> None:
        self.io = BlockingIo()
        self.timeout = timeout

    def run(self, step: Step[T]) -> T:
        """Drive a step to its end."""
        return self.io.run(step)

    def deadline(self) -> float:
        """Return when a call that begins now is to be given up."""
        return self.io.now() + self.timeout

    def until(self, timeout: float | None) -> float:
        """Return when a wait that begins now is over; None means never."""
        return math.inf if timeout is None else self.io.now() + timeout


class Sender:
    """Sends to one queue or topic."""

    def __init__(self, caller: _Caller, steps: Sending) -> None:
        self.steps = steps
        self._caller = caller

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, messages: Message | Sequence[Message]) -> None:
        """Send one message or several and return when the broker has stored them all.

        Several are sent side by side, each on its own. If some are refused, or the connection is
        lost before all answers are here, `PartlyFailed` says which; nothing is sent twice.
        """
        self._caller.run(self.steps.send(listed(messages), self._caller.deadline()))

    def send_batch(self, messages: Sequence[Message]) -> None:
        """Send messages as one unit, which is stored as a whole or refused as a whole."""
        self._caller.run(self.steps.send_batch(messages, self._caller.deadline()))

    def schedule(self, messages: Message | Sequence[Message]) -> list[int]:
        """Let messages appear at their `scheduled_time`; return numbers to cancel them by."""
        return self._caller.run(
            self.steps.entity.schedule(listed(messages), self._caller.deadline())
        )

    def cancel_scheduled(self, sequence_numbers: Sequence[int]) -> None:
        """Take scheduled messages back before they appear."""
        self._caller.run(self.steps.entity.cancel(sequence_numbers, self._caller.deadline()))

    def close(self) -> None:
        """Detach from the entity. The client stays open."""
        self._caller.run(self.steps.close())


class Receiver:
    """Receives from one queue or subscription, or from a sub-queue of it."""

    def __init__(self, caller: _Caller, steps: Receiving) -> None:
        self.steps = steps
        self._caller = caller

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self.messages()

    def messages(self, timeout: float | None = None) -> Iterator[ReceivedMessage]:
        """Receive one message after the other; end when none comes for so long, or never."""
        while received := self.receive(1, timeout):
            yield received[0]

    def receive(self, count: int = 1, timeout: float | None = None) -> list[ReceivedMessage]:
        """Return up to `count` messages as soon as there are any; none after `timeout` seconds.

        With a timeout of 0 only what is there already is returned. A lost connection is made
        again while waiting.
        """
        until = self._caller.until(timeout)
        return self._caller.run(self.steps.receive(count, until, self._caller.timeout))

    def complete(self, messages: ReceivedMessage | Sequence[ReceivedMessage]) -> None:
        """Say that messages are dealt with: when this returns they are gone for good."""
        self._settle(messages, settlement.COMPLETE)

    def abandon(
        self,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Let messages come again, with some application properties changed."""
        self._settle(messages, settlement.abandon(changes))

    def defer(
        self,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Set messages aside; only `receive_deferred` brings them."""
        self._settle(messages, settlement.defer(changes))

    def dead_letter(
        self,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        reason: str | None = None,
        description: str | None = None,
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Move messages to the dead-letter queue."""
        self._settle(messages, settlement.dead_letter(reason, description, changes))

    def renew_lock(self, message: ReceivedMessage) -> datetime:
        """Hold a message for another lock duration; return until when."""
        return self._caller.run(self.steps.renew_lock(message, self._caller.deadline()))

    def receive_deferred(self, sequence_numbers: Sequence[int]) -> list[ReceivedMessage]:
        """Receive messages that were set aside."""
        return self._caller.run(
            self.steps.receive_deferred(sequence_numbers, self._caller.deadline())
        )

    def peek(self, count: int = 1, from_sequence: int = 0) -> list[ReceivedMessage]:
        """Look at messages, locked or not, from a sequence number on; possibly fewer than asked."""
        return self._caller.run(
            self.steps.entity.peek(
                from_sequence, count, self._caller.deadline(), self.steps.session_id
            )
        )

    def peek_merged(self, count: int = 1) -> list[ReceivedMessage]:
        """Look at the oldest messages of all fragments together, by the time they were taken."""
        return self._caller.run(self.steps.entity.peek_merged(count, self._caller.deadline()))

    def delete(
        self,
        count: int,
        *,
        until: datetime | None = None,
        state: MessageState = MessageState.ACTIVE,
    ) -> int:
        """Delete up to 4,000 of the oldest messages, unread; return how many. Locked ones stay.

        `until` is the last time of enqueueing that is meant: if it is not given, the present.
        """
        wish = DeleteWish.of(state, until, datetime.now(UTC))
        return self._delete(wish, count)

    def purge(
        self,
        *,
        until: datetime | None = None,
        state: MessageState = MessageState.ACTIVE,
    ) -> int:
        """Delete all that `delete` would, in as many calls as it takes; return how many."""
        wish = DeleteWish.of(state, until, datetime.now(UTC))
        total = 0
        while deleted := self._delete(wish, DELETED_PER_CALL_MAX):
            total += deleted
        return total

    def _delete(self, wish: DeleteWish, count: int) -> int:
        steps = self.steps
        return self._caller.run(
            steps.entity.delete(wish, count, self._caller.deadline(), steps.session_id)
        )

    def close(self) -> None:
        """Give back what was fetched ahead, and detach. What was received stays locked."""
        self._caller.run(self.steps.close(self._caller.until(CLOSE_SECONDS)))

    def _settle(
        self,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        how: settlement.Settlement,
    ) -> None:
        self._caller.run(self.steps.settle(listed(messages), how, self._caller.deadline()))


class SessionReceiver(Receiver):
    """Receives from one session, which nobody else can do meanwhile."""

    def __init__(self, caller: _Caller, steps: SessionReceiving) -> None:
        super().__init__(caller, steps)
        self._session = steps

    @property
    def session_id(self) -> str:
        """The session that is held."""
        return self._session.accepted_id

    @property
    def locked_until(self) -> datetime | None:
        """When the lock on the session ends; renewing moves it."""
        return self._session.locked_until

    def renew_session_lock(self) -> datetime:
        """Hold the session for another lock duration; return until when."""
        return self._caller.run(self._session.renew(self._caller.deadline()))

    def state(self) -> bytes | None:
        """Return what is kept with the session."""
        return self._caller.run(
            self.steps.entity.session_state(self.session_id, self._caller.deadline())
        )

    def set_state(self, state: bytes | None) -> None:
        """Keep something with the session; None forgets it."""
        self._caller.run(
            self.steps.entity.set_session_state(self.session_id, state, self._caller.deadline())
        )


class Transaction:
    """Sends and settlements that happen together, when the `with` block ends without an error."""

    def __init__(self, caller: _Caller, steps: Transacting) -> None:
        self._caller = caller
        self._steps = steps

    def send(self, sender: Sender, messages: Message | Sequence[Message]) -> None:
        """Send messages; they appear when the transaction is committed."""
        self._run(sender.steps.send(listed(messages), self._caller.deadline(), self._steps))

    def send_batch(self, sender: Sender, messages: Sequence[Message]) -> None:
        """Send messages as one unit, which joins as a whole or is refused as a whole."""
        self._run(sender.steps.send_batch(messages, self._caller.deadline(), self._steps))

    def complete(
        self, receiver: Receiver, messages: ReceivedMessage | Sequence[ReceivedMessage]
    ) -> None:
        """Say that messages are dealt with."""
        self._settle(receiver, messages, settlement.COMPLETE)

    def abandon(
        self,
        receiver: Receiver,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Let messages come again."""
        self._settle(receiver, messages, settlement.abandon(changes))

    def defer(
        self,
        receiver: Receiver,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        changes: Mapping[str, object] | None = None,
    ) -> None:
        """Set messages aside."""
        self._settle(receiver, messages, settlement.defer(changes))

    def dead_letter(
        self,
        receiver: Receiver,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        reason: str | None = None,
        description: str | None = None,
    ) -> None:
        """Move messages to the dead-letter queue."""
        self._settle(receiver, messages, settlement.dead_letter(reason, description, None))

    def _settle(
        self,
        receiver: Receiver,
        messages: ReceivedMessage | Sequence[ReceivedMessage],
        how: settlement.Settlement,
    ) -> None:
        deadline = self._caller.deadline()
        self._run(receiver.steps.settle(listed(messages), how, deadline, self._steps))

    def _run(self, step: Step[None]) -> None:
        self._caller.run(self._steps.part(step))


class Client:
    """A namespace, as a client sees it. Nothing is connected until something needs it."""

    def __init__(self, connector: Connector, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._connector = connector
        self._caller = _Caller(timeout)

    @classmethod
    def from_connection_string(
        cls,
        connection_string: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Make a client; a call of it takes at most `timeout` seconds."""
        return cls(connector_for(connection_string, tls), timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sender(self, entity: str) -> Sender:
        """Return a sender to a queue or topic."""
        return Sender(self._caller, Sending(self._connector, entity))

    def receiver(
        self,
        entity: str,
        *,
        subscription: str | None = None,
        sub_queue: SubQueue = SubQueue.MAIN,
        mode: ReceiveMode = ReceiveMode.PEEK_LOCK,
        prefetch: int = 0,
    ) -> Receiver:
        """Return a receiver from a queue or subscription.

        With `prefetch`, so many messages are kept at hand: faster, but they are locked meanwhile.
        """
        path = entity_path(entity, subscription, sub_queue)
        is_deleting = mode is ReceiveMode.RECEIVE_AND_DELETE
        steps = Receiving(self._connector, path, is_deleting=is_deleting, prefetch=prefetch)
        return Receiver(self._caller, steps)

    def accept_session(
        self,
        entity: str,
        session_id: str | None = None,
        *,
        subscription: str | None = None,
        prefetch: int = 0,
        timeout: float | None = None,
    ) -> SessionReceiver:
        """Lock a session, or the next that has messages, and return a receiver of it."""
        path = entity_path(entity, subscription)
        steps = SessionReceiving(self._connector, path, prefetch=prefetch, session_id=session_id)
        self._caller.run(steps.accept(self._caller.timeout if timeout is None else timeout))
        return SessionReceiver(self._caller, steps)

    def sessions(self, entity: str, *, subscription: str | None = None) -> list[str]:
        """Return the ids of the sessions that have messages."""
        managed = ManagedEntity(self._connector, entity_path(entity, subscription))
        return self._caller.run(managed.sessions(self._caller.deadline()))

    def count(
        self,
        entity: str,
        *,
        subscription: str | None = None,
        sub_queue: SubQueue = SubQueue.MAIN,
    ) -> int:
        """Return how many messages there are, of any state, in all fragments that are online."""
        managed = ManagedEntity(self._connector, entity_path(entity, subscription, sub_queue))
        return (self._caller.run(managed.extent(self._caller.deadline()))).messages

    def redrive(
        self,
        entity: str,
        wish: Redrive | None = None,
        *,
        subscription: str | None = None,
        sub_queue: SubQueue = SubQueue.DEAD_LETTER,
        on_progress: OnProgress | None = None,
    ) -> Progress:
        """Have dead letters tried again, without receiving them; return how it went.

        What was cut off can be asked for again: it does the rest, and nothing twice.
        """
        path = entity_path(entity, subscription, sub_queue)
        run = Redriving(self._connector, path, wish or Redrive())
        return self._caller.run(whole_run(run, self._caller.deadline, on_progress))

    def purge(
        self,
        entity: str,
        wish: Purge | None = None,
        *,
        subscription: str | None = None,
        sub_queue: SubQueue = SubQueue.MAIN,
        on_progress: OnProgress | None = None,
    ) -> Progress:
        """Delete messages unread, those for which a condition is true; return how it went."""
        path = entity_path(entity, subscription, sub_queue)
        run = Purging(self._connector, path, wish or Purge())
        return self._caller.run(whole_run(run, self._caller.deadline, on_progress))

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Let what the block does through it happen together, or not at all if it raises."""
        steps = Transacting(self._connector)
        self._caller.run(steps.begin(self._caller.deadline()))
        try:
            yield Transaction(self._caller, steps)
        except BaseException:
            self._caller.run(steps.roll_back(self._caller.until(CLOSE_SECONDS)))
            raise
        self._caller.run(steps.commit(self._caller.deadline()))

    def close(self) -> None:
        """Give back what was fetched ahead and end the connection."""
        try:
            self._caller.run(self._connector.close(self._caller.until(CLOSE_SECONDS)))
        finally:
            self._caller.io.close()
