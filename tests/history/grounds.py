"""What a history stands on: stores in files of their own, or in databases of a server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final, Protocol

from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.store import Pacing, PostgresStore
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.blank_stores import BlankStores
from bendybus.testing.local_broker import StartedStore

# Opens the store of a number, each time the same one; the path is for those who need a file.
MakeStore = Callable[[int, Path], StartedStore]

NAMESPACES: Final = ("sbemulatorns",)
# How soon a front end notices that nobody looks after a store.
HASTY: Final = Pacing(beat_seconds=0.05)


class Ground(Protocol):
    """Gives stores to a history."""

    def __call__(self, count: int, /) -> AbstractContextManager[MakeStore]:
        """Give so many while the block runs."""
        ...


def files(count: int) -> AbstractContextManager[MakeStore]:
    """Stores in files."""
    del count
    return nullcontext(SqliteStore)


def databases(blank_stores: BlankStores) -> Ground:
    """Stores in databases, each lent while a history lasts."""

    @contextmanager
    def lent(count: int) -> Iterator[MakeStore]:
        with ExitStack() as lending:
            urls = [lending.enter_context(blank_stores.lent()) for _ in range(count)]

            def make(number: int, _path: Path) -> PostgresStore:
                identity = StoreIdentity("cluster", number, count, NAMESPACES, may_claim=True)
                return PostgresStore(number, urls[number], identity=identity, pacing=HASTY)

            yield make

    return lent
