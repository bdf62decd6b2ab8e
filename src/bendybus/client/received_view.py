"""A message that was received or peeked at, as filters see it: the broker's language, here."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from bendybus.client.message import ReceivedMessage
from bendybus.model.message_view import fold_names

_SYSTEM: Final[dict[str, Callable[[ReceivedMessage], object]]] = {
    "ContentType": lambda message: message.content_type,
    "CorrelationId": lambda message: _text(message.correlation_id),
    "DeadLetterSource": lambda message: message.dead_letter_source,
    "DeliveryCount": lambda message: message.delivery_count,
    "EnqueuedTimeUtc": lambda message: _milliseconds(message.enqueued_time),
    "Label": lambda message: message.subject,
    "LockedUntilUtc": lambda message: _milliseconds(message.locked_until),
    "MessageId": lambda message: _text(message.message_id),
    "PartitionKey": lambda message: message.partition_key,
    "ReplyTo": lambda message: message.reply_to,
    "ReplyToSessionId": lambda message: message.reply_to_session_id,
    "ScheduledEnqueueTimeUtc": lambda message: _milliseconds(message.scheduled_time),
    "SequenceNumber": lambda message: message.sequence_number,
    "SessionId": lambda message: message.session_id,
    "Size": lambda message: len(message.payload),
    "State": lambda message: message.state.value,
    "TimeToLive": lambda message: _duration(message.time_to_live),
    "To": lambda message: message.to,
}


class ReceivedView:
    """One message for filters."""

    def __init__(self, message: ReceivedMessage) -> None:
        self._message = message
        self._user: Mapping[str, object] | None = None

    @property
    def user(self) -> Mapping[str, object]:
        """The application properties under their folded names."""
        if self._user is None:
            self._user = fold_names(self._message.application_properties)
        return self._user

    def system(self, name: str) -> object:
        """The value of a property of the system, None where the message has none."""
        read = _SYSTEM.get(name)
        return None if read is None else read(self._message)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def _duration(value: timedelta | None) -> int | None:
    return None if value is None else value // timedelta(milliseconds=1)
