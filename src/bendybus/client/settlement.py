"""The four things that can become of a locked message, as links and as requests say them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bendybus.amqp.outcomes import Accepted, AmqpError, Modified, Rejected
from bendybus.amqp.values import Symbol
from bendybus.client.answers import DEAD_LETTER_CONDITION


@dataclass(frozen=True, slots=True)
class Settlement:
    """One outcome in both forms."""

    state: object
    """On the link that the message came on."""
    status: str
    """In a request that names the lock token."""
    fields: dict[object, object] = field(default_factory=dict)
    """Further fields of the request."""


COMPLETE = Settlement(Accepted(), "completed")


def abandon(changes: Mapping[str, object] | None) -> Settlement:
    """Let it come again, with some properties changed."""
    return Settlement(Modified(True, False, _keyed(changes)), "abandoned", _fields(changes))


def defer(changes: Mapping[str, object] | None) -> Settlement:
    """Set it aside, to be received by its number."""
    # The spelling is the protocol's.
    return Settlement(Modified(True, True, _keyed(changes)), "defered", _fields(changes))


def dead_letter(
    reason: str | None, description: str | None, changes: Mapping[str, object] | None
) -> Settlement:
    """Move it to the dead-letter queue."""
    details: dict[object, object] = dict(_keyed(changes) or {})
    fields = _fields(changes)
    if reason is not None:
        details[Symbol("DeadLetterReason")] = reason
        fields["deadletter-reason"] = reason
    if description is not None:
        details[Symbol("DeadLetterErrorDescription")] = description
        fields["deadletter-description"] = description
    error = AmqpError(DEAD_LETTER_CONDITION, None, details)
    return Settlement(Rejected(error), "suspended", fields)


def _keyed(changes: Mapping[str, object] | None) -> dict[object, object] | None:
    return {Symbol(name): value for name, value in changes.items()} if changes else None


def _fields(changes: Mapping[str, object] | None) -> dict[object, object]:
    return {"properties-to-modify": dict(changes)} if changes else {}
