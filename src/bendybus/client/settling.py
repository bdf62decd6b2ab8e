"""settle: tell the broker what became of messages, and wait until it confirms."""

from collections.abc import Sequence

from bendybus.amqp.outcomes import Accepted
from bendybus.client.answers import Answers
from bendybus.client.errors import ClientError, MessageLockLost, MessageNotLocked
from bendybus.client.managing import ManagedEntity
from bendybus.client.message import ReceivedMessage
from bendybus.client.receiving_end import ReceivingEnd
from bendybus.client.settlement import Settlement
from bendybus.client.steps import Step, wait_for
from bendybus.client.transacting import Transacting


def settle(
    entity: ManagedEntity,
    messages: Sequence[ReceivedMessage],
    settlement: Settlement,
    deadline: float,
    *,
    transaction: Transacting | None = None,
    session_id: str | None = None,
) -> Step[None]:
    """Settle messages. Raises if any could not be, saying which.

    Each goes over the link that it came on, once: a link forgets a delivery when it is settled.
    Without that link, or another time, its lock token names it, and the broker judges.
    """
    for message in messages:
        if message.end is None and message.lock_token is None:
            raise MessageNotLocked("The message has no lock, so it cannot be settled.")
    state = settlement.state if transaction is None else transaction.state(settlement.state)
    answers = Answers(len(messages))
    ends, others = _settle_on_links(messages, answers, state)

    def check() -> None:
        for end in ends:
            end.check()

    failure: ClientError | None = None
    try:
        for index in others:
            if transaction is not None:
                raise MessageLockLost("The link that the message came on is gone.")
            answer = yield from _settle_by_token(
                entity, messages[index], settlement, deadline, session_id
            )
            answers.note(index, answer)
        yield from wait_for(
            lambda: not answers.waiting, check, deadline, "The broker's confirmation"
        )
    except ClientError as error:
        failure = error
    answers.raise_failures(failure, is_send=False)


def _settle_on_links(
    messages: Sequence[ReceivedMessage], answers: Answers, state: object
) -> tuple[list[ReceivingEnd], list[int]]:
    """Settle what came on links that still live; return those, and the indices of the others."""
    on_links: dict[ReceivingEnd, list[int]] = {}
    others: list[int] = []
    for index, message in enumerate(messages):
        end, message.end = message.end, None
        if end is not None and end.failure is None:
            on_links.setdefault(end, []).append(index)
        else:
            others.append(index)
    for end, indices in on_links.items():
        end.settle([messages[index].delivery_id for index in indices], answers, indices, state)
    return list(on_links), others


def _settle_by_token(
    entity: ManagedEntity,
    message: ReceivedMessage,
    settlement: Settlement,
    deadline: float,
    session_id: str | None,
) -> Step[object]:
    """Settle one message by request; return the answer to note: a refusal, or that it was done."""
    if message.lock_token is None:
        return MessageLockLost("The link that the message came on is gone, and it has no token.")
    try:
        yield from entity.settle(message.lock_token, settlement, deadline, session_id)
    except MessageLockLost as error:
        return error
    return Accepted()
