"""send: hand messages over and wait until the broker has taken every one of them."""

from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.client.answers import Answers
from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.encoded_message import BATCH_FORMAT, encode_batch
from bendybus.client.errors import ArgumentInvalid, ClientClosed, ClientError
from bendybus.client.managing import ManagedEntity
from bendybus.client.message import Message
from bendybus.client.sending_end import SendingEnd
from bendybus.client.steps import Flush, Step, wait_for
from bendybus.client.transacting import Transacting

FLUSH_BYTES: Final = 128 * 1024
"""So much is written at once: the broker works on it while the next is made ready."""


class Sending:
    """What a sender does, step by step. It attaches when needed, and again after a loss."""

    def __init__(self, connector: Connector, path: str) -> None:
        self.entity = ManagedEntity(connector, path)
        self._connector = connector
        self._path = path
        self._end: SendingEnd | None = None
        self._is_closed = False

    def send(
        self, messages: Sequence[Message], deadline: float, transaction: Transacting | None = None
    ) -> Step[None]:
        """Send messages side by side. Raises if any was not taken, saying which."""
        # Made one by one, so that the broker works on the first while the last are encoded.
        payloads = (_payload(message) for message in messages)
        yield from self._deliver(payloads, Answers(len(messages)), 0, deadline, transaction)

    def send_batch(
        self, messages: Sequence[Message], deadline: float, transaction: Transacting | None = None
    ) -> Step[None]:
        """Send messages as one delivery, which is taken as a whole or not at all."""
        if not messages:
            return
        parts = [_payload(message) for message in messages]
        encoded = [part for part in parts if isinstance(part, bytes)]
        for part in parts:
            if isinstance(part, ClientError):
                raise part
        payload = encode_batch(encoded, messages[0].envelope())
        yield from self._deliver([payload], Answers(1), BATCH_FORMAT, deadline, transaction)

    def attached(self, deadline: float) -> Step[SendingEnd]:
        """Return a link that is open."""
        return (
            yield from self._connector.persistently(
                self._path, deadline, lambda connection: self._attach(connection, deadline)
            )
        )

    def close(self) -> Step[None]:
        """Detach; what was taken stays taken."""
        self._is_closed = True
        connection, end = self._connector.connection, self._end
        if connection is not None and end is not None and end.failure is None:
            connection.detach(end, ClientClosed("The sender is closed."))
        yield Flush()

    def _attach(self, connection: Connection, deadline: float) -> Step[SendingEnd]:
        if self._is_closed:
            raise ClientClosed("The sender is closed.")
        if self._end is None or self._end.failure is not None:
            self._end = connection.attach_sender(self._path)
        end = self._end
        yield from wait_for(lambda: end.is_open, end.check, deadline, "Attaching the sender")
        return end

    def _deliver(
        self,
        payloads: Iterable[bytes | ClientError],
        answers: Answers,
        message_format: int,
        deadline: float,
        transaction: Transacting | None,
    ) -> Step[None]:
        failure: ClientError | None = None
        try:
            end = yield from self.attached(deadline)
            state = None if transaction is None else transaction.state()
            yield from _send_all(end, payloads, answers, message_format, state, deadline)
            yield from wait_for(
                lambda: not answers.waiting, end.check, deadline, "The broker's acceptance"
            )
        except ClientError as error:
            failure = error
        answers.raise_failures(failure, is_send=True)


def _payload(message: Message) -> bytes | ClientError:
    """Return a message as it is sent, or why it cannot be."""
    try:
        return message.encode()
    except ValueError as error:
        return ArgumentInvalid(f"The message cannot be sent: {error}.")


def _send_all(
    end: SendingEnd,
    payloads: Iterable[bytes | ClientError],
    answers: Answers,
    message_format: int,
    state: object,
    deadline: float,
) -> Step[None]:
    """Send as fast as the broker gives credit; do not wait for its answers meanwhile."""
    unflushed = 0
    for index, payload in enumerate(payloads):
        if isinstance(payload, ClientError):
            answers.note(index, payload)
            continue
        while not end.send(payload, answers, index, state=state, message_format=message_format):
            yield from wait_for(
                lambda: end.link.sendable() > 0, end.check, deadline, "Credit from the broker"
            )
            unflushed = 0
        unflushed += len(payload)
        if unflushed >= FLUSH_BYTES:
            yield Flush()
            unflushed = 0
