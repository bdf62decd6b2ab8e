"""What goes wrong between two peers, by how much of the connection it costs."""

from __future__ import annotations


class IllegalTransition(Exception):  # noqa: N818  the peer's fault or the caller's: not known here
    """Something was sent or received that the state does not allow."""


class ConnectionFault(Exception):  # noqa: N818  the peer's error, not ours
    """The peer broke a rule that costs it the connection."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class SessionFault(Exception):  # noqa: N818  the peer's error, not ours
    """The peer broke a rule that costs it the session."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class CannotSend(Exception):  # noqa: N818  a refusal to our own caller
    """A caller sent on a link that has no credit, no window or is not open: see `sendable`."""
