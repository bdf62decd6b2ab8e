"""A folder of embedded stores, taken over by a broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bendybus.store.sqlite.data_folder import held, put_moved_away
from bendybus.store.sqlite.restoring import complete_restore


@contextmanager
def only_broker_on(folder: Path) -> Iterator[None]:
    """Hold the folder for this process and those it forks, with all that was begun there ended."""
    with held(folder):
        complete_restore(folder)
        put_moved_away(folder)
        yield
