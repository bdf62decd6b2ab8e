"""What a store tells of messages that are staged; part of `bendybus.store.port`."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from bendybus.model.ids import QueueNumber
from bendybus.model.staging import Chunk, StagedTally, Unfinished


class StagingStore(Protocol):
    """Keeps messages that are staged, see `model.staging`; they are written by `apply`."""

    def next_chunks(
        self, queue: QueueNumber, stages: Sequence[int], count_max: int = 1
    ) -> Awaitable[list[Chunk]]:
        """Return the first chunk that some stages have in a queue: in their order, by ordinal.

        If its messages can be published as they are, those of the same stage that follow and can be
        come with it, up to so many. Nothing of these is read but what is said.
        """
        ...

    def unfinished(self) -> Awaitable[list[Unfinished]]:
        """Return the decisions that were made here and are not carried out."""
        ...

    def staged_tally(self) -> Awaitable[StagedTally]:
        """Say how much is staged here, and waits to be finished."""
        ...

    def stale_stages(self, *, count_max: int) -> Awaitable[list[tuple[int, QueueNumber]]]:
        """Return some stages that can be forgotten, and the home of each."""
        ...
