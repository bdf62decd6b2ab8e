"""send: hand messages over and wait until the broker has taken every one of them."""

from collections.abc import Sequence
from typing import Final

from bendybus.client.answers import Answers
from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.encoded_message import BATCH_FORMAT, encode_batch
from bendybus.client.errors import ClientClosed, ClientError
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
        payloads = [message.encode() for message in messages]
        yield from self._deliver(payloads, 0, deadline, transaction)

    def send_batch(
        self, messages: Sequence[Message], deadline: float, transaction: Transacting | None = None
    ) -> Step[None]:
        """Send messages as one delivery, which is taken as a whole or not at all."""
        if not messages:
            return
        payload = encode_batch([each.encode() for each in messages], messages[0].envelope())
        yield from self._deliver([payload], BATCH_FORMAT, deadline, transaction)

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
        payloads: list[bytes],
        message_format: int,
        deadline: float,
        transaction: Transacting | None,
    ) -> Step[None]:
        answers = Answers(len(payloads))
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


def _send_all(
    end: SendingEnd,
    payloads: list[bytes],
    answers: Answers,
    message_format: int,
    state: object,
    deadline: float,
) -> Step[None]:
    """Send as fast as the broker gives credit; do not wait for its answers meanwhile."""
    unflushed = 0
    for index, payload in enumerate(payloads):
        while not end.send(payload, answers, index, state=state, message_format=message_format):
            yield from wait_for(
                lambda: end.link.sendable() > 0, end.check, deadline, "Credit from the broker"
            )
            unflushed = 0
        unflushed += len(payload)
        if unflushed >= FLUSH_BYTES:
            yield Flush()
            unflushed = 0
