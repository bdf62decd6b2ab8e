"""What the errors of an engine mean to those whose work they broke off."""

from typing import Protocol


class Elsewhere(Exception):
    """Others have moved the store, and it is at another place now. Nothing was done."""


class Failures(Protocol):
    """How a lane tells the errors of its engine apart."""

    @property
    def every(self) -> tuple[type[Exception], ...]:
        """All that the database itself raises."""
        ...

    def is_of_request(self, error: Exception) -> bool:
        """Say whether the request was wrong, not the database: all others take it offline."""
        ...

    def is_lasting(self, error: Exception) -> bool:
        """Say whether another try cannot mend it."""
        ...

    def is_unwritten(self, error: Exception) -> bool:
        """Say whether a commit that failed so has surely left nothing behind."""
        ...

    def is_passing(self, error: Exception) -> bool:
        """Say whether somebody else is in the way just now; what can wait is done later."""
        ...

    def is_repeated(self, error: Exception) -> bool:
        """Say whether the whole of it, begun anew, may well succeed."""
        ...

    def description(self, error: Exception) -> str:
        """Say what failed, in words that an operator can look up."""
        ...
