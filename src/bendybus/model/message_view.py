"""What a rule sees of a message: its properties, by scope and name.

Names are compared without case. A view holds those of the user folded, so that a lookup is one
step in a dictionary; those of the system have one spelling, the one in `SYSTEM_PROPERTIES`.

Times are milliseconds since 1970 in UTC, durations milliseconds, MessageId and CorrelationId
their canonical text whatever their type on the wire.
"""

from collections.abc import Mapping
from typing import Final, Protocol

# Those a rule's action may write. All are texts, so no conversion can be refused.
WRITABLE_SYSTEM_PROPERTIES: Final = frozenset(
    {
        "ContentType",
        "CorrelationId",
        "Label",
        "MessageId",
        "PartitionKey",
        "ReplyTo",
        "ReplyToSessionId",
        "SessionId",
        "To",
        "ViaPartitionKey",
    }
)
SYSTEM_PROPERTIES: Final = WRITABLE_SYSTEM_PROPERTIES | {
    "DeadLetterSource",
    "DeliveryCount",
    "EnqueuedSequenceNumber",
    "EnqueuedTimeUtc",
    "ExpiresAtUtc",
    "ForcePersistence",
    "LockToken",
    "LockedUntilUtc",
    "ScheduledEnqueueTimeUtc",
    "SequenceNumber",
    "Size",
    "State",
    "TimeToLive",
}
# Newer clients call the label subject.
_BY_FOLDED_NAME: Final = {name.lower(): name for name in SYSTEM_PROPERTIES} | {"subject": "Label"}


class MessageView(Protocol):
    """One message, as a filter or an action reads it.

    What cannot be read raises `FilterFailed`.
    """

    @property
    def user(self) -> Mapping[str, object]:
        """The application properties under their folded names; see `fold_names`."""
        ...

    def system(self, name: str) -> object:
        """The value of one of `SYSTEM_PROPERTIES`, None where the message has none."""
        ...


def fold_name(name: str) -> str:
    """Return the form under which a name is looked up."""
    return name.lower()


def fold_names(properties: Mapping[str, object]) -> dict[str, object]:
    """Make the `user` mapping of a view; of names that differ in case only, the last stays."""
    return {name.lower(): value for name, value in properties.items()}


def system_name(name: str) -> str | None:
    """Return the one spelling of a system property's name, or None if there is no such."""
    return _BY_FOLDED_NAME.get(name.lower())
