"""What a store is to several front ends: who looks after it, who is told, who changes the catalog.

A front end is a process that serves every entity. A store of its own belongs to one; a shared one
to any number, of which none knows the others. Whatever they must not do at the same time they do by
turns that the store gives.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from bendybus.model.ids import EntityNumber, Instant, QueueNumber

# In place of a queue's number: entities or access rules have changed. Queues have higher ones.
CATALOG: Final = QueueNumber(0)
# Told which queues others have freed messages or sessions in; of none: it may be any.
Heard = Callable[[Sequence[QueueNumber]], None]


class Sharing(Protocol):
    """Part of every store; of one that is not shared the answers are `Unshared`'s."""

    @property
    def is_shared(self) -> bool:
        """Whether other front ends may serve from it at the same time."""
        ...

    @property
    def generation(self) -> int:
        """Rises when anybody has changed entities or access rules here.

        It is known anew with each commit, and within a second without any. Whoever sees it risen
        and reads the catalog then finds the change.
        """
        ...

    @property
    def is_caretaker(self) -> bool:
        """Whether this front end looks after the store: one does, of all that share it.

        It was so a few seconds ago at the latest: a process that was paused for longer says no.
        Becoming it ends the holds of who was it before (`UNTIL_REOPENED`), and counts as an opening
        of the store.
        """
        ...

    def listen(self, heard: Heard) -> None:
        """Have a function called, in the loop, when others `tell`, from now on.

        A hint: it may be lost, and may come twice.
        """
        ...

    def tell(self, queues: Sequence[QueueNumber]) -> None:
        """Tell the others that messages or sessions may have become free. Never waits or fails."""
        ...

    def catalog_turn(self) -> AbstractAsyncContextManager[None]:
        """Be the only front end that changes the catalog here.

        Raises `StoreUnavailable`, and `ServerBusy` when another does not get done.
        """
        ...

    def server_time(self) -> Awaitable[Instant | None]:
        """Return the time that the database's machine has; None if it has this one's."""
        ...

    def note_uses(self, entities: Sequence[EntityNumber], *, now: Instant) -> Awaitable[None]:
        """Note that entities are in use. Like a lock, it may be forgotten in a crash."""
        ...

    def uses(self) -> Awaitable[dict[EntityNumber, Instant]]:
        """Return when entities were noted to be in use, of all that were."""
        ...


class Unshared:
    """The answers of a store that has one front end."""

    @property
    def is_shared(self) -> bool:
        """Whether other front ends may serve from it: none."""
        return False

    @property
    def generation(self) -> int:
        """Nobody else changes anything here."""
        return 0

    @property
    def is_caretaker(self) -> bool:
        """There is nobody else."""
        return True

    def listen(self, heard: Heard) -> None:
        """Nobody will tell."""

    def tell(self, queues: Sequence[QueueNumber]) -> None:
        """Nobody listens."""

    @asynccontextmanager
    async def catalog_turn(self) -> AsyncIterator[None]:
        """It is always ours."""
        yield

    async def server_time(self) -> Instant | None:
        """The file has no clock of its own."""
        return None
