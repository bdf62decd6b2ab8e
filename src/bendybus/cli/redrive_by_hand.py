"""Redriving at a service that has no such operation: receive, send and complete, one by one.

In a transaction where the service lets a message be completed and sent in one. Elsewhere a message
is sent first and completed then, so that a run that is cut off may leave one that is there twice;
nobody does that without having been asked.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from bendybus.cli.conditions import compiled_condition, compiled_edit
from bendybus.cli.failure import CommandFailed
from bendybus.client import Client, Message, Receiver
from bendybus.client.errors import ClientError, InvalidOperation, NotServed, TransactionFailed
from bendybus.client.going_through import OnProgress, Progress
from bendybus.client.message import ReceivedMessage
from bendybus.client.received_view import ReceivedView
from bendybus.client.redriving import Redrive
from bendybus.model.ids import SubQueue
from bendybus.model.sql_values import FilterFailed

TOGETHER: Final = 100
WAIT_SECONDS: Final = 2.0
# Messages that are not meant are held until the end, so that they do not come again.
HELD_MAX: Final = 5000
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
_FIELDS: Final = {
    "ContentType": "content_type",
    "CorrelationId": "correlation_id",
    "Label": "subject",
    "MessageId": "message_id",
    "PartitionKey": "partition_key",
    "ReplyTo": "reply_to",
    "ReplyToSessionId": "reply_to_session_id",
    "SessionId": "session_id",
    "To": "to",
}

Test = Callable[[ReceivedMessage], bool]


class ByHand:
    """One run."""

    def __init__(self, client: Client, wish: Redrive, *, may_double: bool) -> None:
        self._client = client
        self._wish = wish
        self._may_double = may_double
        self._test = _test(wish)
        self._edit = compiled_edit(wish.edit)
        self._is_transacted = True

    def run(
        self, entity: str, subscription: str | None, sub_queue: SubQueue, show: OnProgress
    ) -> Progress:
        """Go through the dead letters that come, until none comes or one comes twice."""
        wish = self._wish
        to = wish.to or entity
        if wish.to is None and (subscription is not None or sub_queue is not SubQueue.DEAD_LETTER):
            raise CommandFailed(
                "this service cannot put a message back there; say with --to which queue or topic"
                " is to have it"
            )
        with self._client.receiver(
            entity, subscription=subscription, sub_queue=sub_queue
        ) as receiver:
            return self._looked(receiver) if wish.dry_run else self._moved(receiver, to, show)

    def _looked(self, receiver: Receiver) -> Progress:
        """Count those that are meant, without touching them."""
        progress, at = Progress(), 0
        while some := receiver.peek(TOGETHER, at):
            progress.looked_at += len(some)
            progress.done += sum(map(self._test, some))
            at = (some[-1].sequence_number or 0) + 1
        progress.total = progress.looked_at
        if self._wish.count is not None:
            progress.done = min(progress.done, self._wish.count)
        return progress

    def _moved(self, receiver: Receiver, to: str, show: OnProgress) -> Progress:
        progress = Progress()
        held: list[ReceivedMessage] = []
        seen: set[int] = set()
        try:
            while some := receiver.receive(TOGETHER, WAIT_SECONDS):
                for message in some:
                    is_new = message.sequence_number not in seen
                    seen.add(message.sequence_number or 0)
                    held.append(message)
                    if is_new and self._is_meant(message, progress):
                        self._move(receiver, message, to)
                        held.pop()
                        progress.done += 1
                    progress.looked_at += is_new
                    progress.total = progress.looked_at
                show(progress)
                has_come_round = len(held) + progress.done > len(seen)
                if has_come_round or len(held) >= HELD_MAX or progress.done == self._wish.count:
                    break
        finally:
            # What is lost meanwhile is free anyway.
            with suppress(ClientError):
                receiver.abandon(held)
        return progress

    def _is_meant(self, message: ReceivedMessage, progress: Progress) -> bool:
        return progress.done != self._wish.count and self._test(message)

    def _move(self, receiver: Receiver, message: ReceivedMessage, to: str) -> None:
        sent = self._edited(message)
        sender = self._client.sender(to)
        if self._wish.rate is not None:
            time.sleep(1 / self._wish.rate)
        if self._is_transacted:
            try:
                with self._client.transaction() as transaction:
                    transaction.complete(receiver, message)
                    transaction.send(sender, sent)
            except (TransactionFailed, NotServed, InvalidOperation) as error:
                if not self._may_double:
                    raise CommandFailed(_no_transaction(error)) from None
                self._is_transacted = False
            else:
                return
        sender.send(sent)
        receiver.complete(message)

    def _edited(self, message: ReceivedMessage) -> Message:
        sent = message.to_message()
        if self._edit is None:
            return sent
        changes = self._edit.apply(ReceivedView(message))
        for name, value in changes.system.items():
            if name in _FIELDS:
                setattr(sent, _FIELDS[name], value)
        sent.application_properties = changes.merged_user(sent.application_properties)
        return sent


def _no_transaction(error: ClientError) -> str:
    return (
        f"this service does not let a message be moved in one transaction ({error}). With"
        " --allow-duplicates it is sent and then completed: if that is cut off in between, the"
        " message is there twice"
    )


def _test(wish: Redrive) -> Test:
    condition = compiled_condition(wish.filter)

    def is_meant(message: ReceivedMessage) -> bool:
        number, enqueued = message.sequence_number or 0, message.enqueued_time or _NEVER
        is_within = (
            wish.from_sequence <= number
            and (wish.until_sequence is None or number <= wish.until_sequence)
            and (wish.enqueued_since is None or wish.enqueued_since <= enqueued)
            and (wish.enqueued_until is None or enqueued <= wish.enqueued_until)
            and wish.reason in (None, message.dead_letter_reason)
        )
        try:
            return is_within and (condition is None or condition.matches(ReceivedView(message)))
        except FilterFailed:
            return False

    return is_meant
