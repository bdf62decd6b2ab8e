"""A transaction: sends and settlements that happen together or not at all (AMQP 1.0 §4)."""

from contextlib import suppress

from bendybus.amqp.composite import encode_composite
from bendybus.amqp.outcomes import Accepted, Declare, Declared, Discharge, TransactionalState
from bendybus.amqp.sections import SectionCode
from bendybus.client.answers import Answers, refusal_in
from bendybus.client.connecting import Connector
from bendybus.client.connection import Connection
from bendybus.client.errors import ClientError, TransactionFailed
from bendybus.client.steps import Step, wait_for

_VALUE_SECTION = b"\x00\x53" + bytes((SectionCode.AMQP_VALUE,))


class Transacting:
    """One transaction, step by step. It lives on one connection and ends with it, rolled back."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._connection: Connection | None = None
        self._id = b""
        self._failure: ClientError | None = None

    def begin(self, deadline: float) -> Step[None]:
        """Declare it."""
        self._connection = yield from self._connector.connected(deadline)
        answer = yield from self._tell(Declare(), deadline)
        if not isinstance(answer, Declared):
            raise refusal_in(answer, is_send=True) or TransactionFailed(
                "The broker did not give the transaction an id."
            )
        self._id = answer.txn_id

    def state(self, outcome: object = None) -> TransactionalState:
        """Return what marks a delivery or a settlement as part of it. Raises if it is over."""
        self._check()
        return TransactionalState(self._id, outcome)

    def part(self, step: Step[None]) -> Step[None]:
        """Do a part of it. After a part failed, the rest of it cannot be committed."""
        try:
            yield from step
        except ClientError as error:
            self._failure = self._failure or error
            raise

    def commit(self, deadline: float) -> Step[None]:
        """Let it happen. Raises `TransactionFailed` if it did not.

        Losing the connection before the answer raises `ConnectionLost`: it may have happened.
        """
        if self._failure is not None:
            yield from self.roll_back(deadline)
            raise TransactionFailed(
                f"Rolled back, because a part of it failed: {self._failure}"
            ) from self._failure
        self._check()
        answer = yield from self._tell(Discharge(self._id, fail=False), deadline)
        if not isinstance(answer, Accepted):
            refusal = refusal_in(answer, is_send=True)
            raise TransactionFailed(
                str(refusal), condition=None if refusal is None else refusal.condition
            ) from refusal

    def roll_back(self, deadline: float) -> Step[None]:
        """Let nothing of it happen. Never raises: the broker does it by itself, if we cannot."""
        # Without the connection or the coordinator's link the transaction is gone already.
        with suppress(ClientError):
            yield from self._tell(Discharge(self._id, fail=True), deadline)

    def _check(self) -> None:
        assert self._connection is not None, "begin it first"
        failure = self._connection.failure
        if failure is not None:
            raise TransactionFailed(
                f"The transaction ended with its connection: {failure}"
            ) from failure

    def _tell(self, body: Declare | Discharge, deadline: float) -> Step[object]:
        """Send the coordinator a message and return its answer."""
        assert self._connection is not None
        self._connection.check()
        end = self._connection.coordinator()
        yield from wait_for(
            lambda: end.is_open and end.link.sendable() > 0,
            end.check,
            deadline,
            "Attaching to the coordinator of transactions",
        )
        answers = Answers(1)
        was_sent = end.send(_VALUE_SECTION + encode_composite(body), answers, 0)
        assert was_sent, "there was credit"
        yield from wait_for(
            lambda: not answers.waiting, end.check, deadline, "The coordinator's answer"
        )
        return answers.state(0)
