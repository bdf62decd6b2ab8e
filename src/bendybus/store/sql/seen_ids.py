"""The ids that duplicate detection knows, however an engine looks them up."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from bendybus.model.ids import Instant


class SeenIds(ABC):
    """Of every queue the digests of ids, and when each was first seen."""

    @abstractmethod
    def new_among(
        self, queue: int, digests: Sequence[bytes | None], since: Instant, now: Instant
    ) -> Sequence[int]:
        """Return the indexes of ids that were not seen after an instant, and remember them.

        Of several that are equal the first is new. None is no id, and always new.
        """

    @abstractmethod
    def forget(self, queue: int, until: Instant) -> int:
        """Forget some ids that were seen until an instant; return when the oldest left was seen."""

    @abstractmethod
    def settle(self) -> None:
        """Note that what was done so far can no longer be undone alone."""

    @abstractmethod
    def undo(self) -> None:
        """Undo what was done since it was last settled; the database undoes its rows itself."""
