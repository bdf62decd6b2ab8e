"""A power cut among reservations: each message is free, reserved or gone, as it was answered.

As `test_power_cut`, for a reader that reserves, commits and gives back, and what it was told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.store.port import Store
from bendybus.store.sql import readers, reading
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.testing.faulty_disk import FaultyDisk, faulty_disk
from bendybus.testing.store_contract.reserving import (
    NAME,
    RELEASED,
    TOKEN,
    commit,
    give_back,
    open_reader,
    reserve,
)
from bendybus.testing.store_contract.subject import MAIN, NOON, ROOMY
from tests.store import power_cut
from tests.store.life import FILE, Life

ROUNDS = 3
TOGETHER = 12
RESERVED_TOGETHER = 5


@dataclass(slots=True)
class Reservations:
    """What a reader was told, and when, as places in the disk's history."""

    life: Life
    sent: int = 0
    # Of each answer when it came: how many positions were made then, and how many are done with.
    positions: list[tuple[int, int]] = field(default_factory=list)
    committed: list[tuple[int, int]] = field(default_factory=list)
    # When it began to give back, and when all was answered.
    released_from: int | None = None
    given_back_at: int | None = None
    # Of each position, what it read back when it was made.
    read_back: dict[int, list[bytes]] = field(default_factory=dict)

    async def run(self, random: Random) -> None:
        store: Store = self.life.store
        await open_reader(store)
        at = 0
        for _ in range(ROUNDS):
            await self._send(store, random)
            while (made := await reserve(store, RESERVED_TOGETHER, at=at)).messages:
                at = made.position
                self.positions.append((len(self.life.disk.history), at))
                self.read_back[at] = await self._read(store, at)
            done = random.randint(0, at)
            while (committed := await commit(store, done)) < done:
                self.committed.append((len(self.life.disk.history), committed))
            self.committed.append((len(self.life.disk.history), committed))
        self.released_from = len(self.life.disk.history)
        await give_back(store)
        while (await give_back(store, token=RELEASED)).messages:
            continue
        self.given_back_at = len(self.life.disk.history)

    async def _send(self, store: Store, random: Random) -> None:
        messages = [
            Message(b"%d:" % (self.sent + at) + random.randbytes(random.choice((10, 300, 2000))))
            for at in range(TOGETHER)
        ]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        self.sent += TOGETHER

    async def _read(self, store: Store, position: int) -> list[bytes]:
        [made] = await store.reservations(
            MAIN, NAME, TOKEN, after=position - 1, until=position, now=NOON
        )
        found = await store.read_reserved(
            MAIN, made.number, from_sequence=0, count_max=100, bytes_max=ROOMY
        )
        return [message.content for message in found]

    def check(self, path: Path, moment: int) -> list[str]:
        """Return what is wrong with what a cut at that moment left."""
        database = open_database(path, Pacing())
        try:
            return self._faults(database, moment)
        finally:
            database.close()

    def _faults(self, database: SqliteDatabase, moment: int) -> list[str]:
        faults = []
        held = reading.browse(database, MAIN, 0, (1000, ROOMY))
        if reading.counts(database, MAIN).messages != len(held):
            faults.append("not as many as are counted")
        records = readers.records(database, [MAIN])
        is_released = self.given_back_at is not None and self.given_back_at <= moment
        reserved = [each for each in held if each.state != 0]
        if (is_released or not records) and reserved:
            faults.append(f"{reserved} is left of {records}")
        if is_released and records:
            faults.append(f"{records} is still there")
        if not records:
            was_there = bool(_answered(self.positions, moment))
            is_going = self.released_from is not None and self.released_from < moment
            return [*faults, "no reader"] if was_there and not is_going else faults
        [record] = records
        if record.position < _answered(self.positions, moment):
            faults.append(f"made {record.position} reservations only")
        if record.committed < _answered(self.committed, moment):
            faults.append(f"done with {record.committed} only")
        faults += self._differences(database, record.committed)
        if record.messages != len(reserved):
            faults.append("not as many are reserved as are counted")
        return faults

    def _differences(self, database: SqliteDatabase, committed: int) -> list[str]:
        """Compare what reads back with what did before."""
        faults = []
        key = readers.ReaderKey(MAIN, NAME, TOKEN)
        for each in readers.find_reservations(database, key, committed, 1 << 60, 1000):
            found = reading.read_reserved(database, MAIN, each.number, 0, (100, ROOMY))
            before = self.read_back.get(each.position)
            if before is not None and [message.content for message in found] != before:
                faults.append(f"{each.position} reads back otherwise")
            if len(found) != each.messages:
                faults.append(f"{each.position} has {len(found)} of {each.messages}")
        return faults


def _answered(noted: list[tuple[int, int]], moment: int) -> int:
    """Return the last number that was answered until a moment."""
    return max((number for at, number in noted if at <= moment), default=0)


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


@pytest.mark.spec("R9.3")
async def test_every_power_cut_leaves_what_was_answered(disk: FaultyDisk, tmp_path: Path) -> None:
    random = Random(11)
    life = Life(disk, tmp_path, random)
    await life.start()
    reservations = Reservations(life)
    await reservations.run(random)
    history = list(disk.history)
    await life.store.close()
    cuts = 0
    for moment, kind, files in power_cut.cuts(history, random, torn=1, keeps_doubtful=False):
        if moment < life.begin:
            continue
        cuts += 1
        folder = tmp_path / "cut"
        power_cut.write_files(files, folder)
        assert reservations.check(folder / FILE, moment) == [], f"cut at {moment}, {kind}"
    assert cuts > 20
