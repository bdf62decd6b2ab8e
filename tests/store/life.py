"""One store on one disk that may fail, with the ledger of what its callers were told."""

import contextlib
from pathlib import Path
from random import Random

from bendybus.model.errors import StoreUnavailable
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.faulty_disk import FaultyDisk
from bendybus.testing.store_contract.subject import EVENTS, ORDERS
from tests.store.ledger import Ledger
from tests.store.traffic import Traffic

FILE = "store.db"
# A few pages, so that the log is written back, and begun anew, every few commits, but more than
# making the entities takes; and no retries but those that a test asks for.
HURRIED = Pacing(log_pages_max=16, retry_seconds=3600)


class Life:
    """A store, its disk, its traffic and its ledger."""

    def __init__(
        self, disk: FaultyDisk, folder: Path, random: Random, pacing: Pacing = HURRIED
    ) -> None:
        self.disk = disk
        self.path = folder / FILE
        self.ledger = Ledger(lambda: len(disk.history))
        self.store = SqliteStore(0, self.path, vfs=disk.name, pacing=pacing)
        self.traffic = Traffic(self.store, self.ledger, random)
        self.begin = 0

    async def start(self) -> None:
        """Open the store and make its entities."""
        await self.store.start()
        await self.store.put_entities([ORDERS])
        await self.store.put_entities([EVENTS])
        await self.come_to_rest()
        self.begin = len(self.disk.history)

    async def come_to_rest(self) -> None:
        """Wait until the store has finished what it does after its last answer."""
        with contextlib.suppress(StoreUnavailable):
            await self.store.entities()
