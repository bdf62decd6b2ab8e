"""What goes wrong between two peers, by how much of the connection it costs."""

from __future__ import annotations


class IllegalTransition(Exception):
    """Something was sent or received that the state does not allow."""


class ConnectionFault(Exception):
    """The peer broke a rule that costs it the connection."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class SessionFault(Exception):
    """The peer broke a rule that costs it the session."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description


class CannotSend(Exception):
    """A caller sent on a link that has no credit, no window or is not open: see `sendable`."""
