"""How many receive from one sub-queue at the same time: a bound on what waits there."""

from typing import Final

from bendybus.model.errors import QuotaExceeded

# What the service allows on one entity.
RECEIVES_MAX: Final = 5000


class Receives:
    """Counts links that receive, clients that wait for a session, and receives over HTTP."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def begin(self) -> None:
        """Count one more, which `end` ends. Raises `QuotaExceeded`."""
        if self.count >= RECEIVES_MAX:
            raise QuotaExceeded(
                f"An entity can have at most {RECEIVES_MAX} receivers at the same time; close some."
            )
        self.count += 1

    def end(self) -> None:
        """Count one less."""
        self.count -= 1
