"""A power cut among redrives: a message is a dead letter or in its queue, never both or neither.

As `test_power_cut`, for messages that go to the dead letters and back, as they are and changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock, Marks, Message, StoredMessage
from bendybus.model.operations import (
    Append,
    Guard,
    Move,
    Operation,
    Remove,
    Requeue,
    Requeued,
)
from bendybus.store.port import Store
from bendybus.store.sql import reading
from bendybus.store.sqlite.database import Pacing, open_database
from bendybus.testing.faulty_disk import FaultyDisk, faulty_disk
from bendybus.testing.store_contract.subject import DEAD, MAIN, NOON, ROOMY, browse, lock
from tests.store import power_cut
from tests.store.life import FILE, Life

ROUNDS = 6
TOGETHER = 12
CHANGED = b" changed"


@dataclass(slots=True)
class Redrives:
    """What was moved, and when that was answered, as places in the disk's history."""

    life: Life
    sent: int = 0
    sent_at: int = 0
    # Of each move of all messages, to and fro, when it was answered.
    moved_at: list[int] = field(default_factory=list)

    async def run(self, random: Random) -> None:
        store: Store = self.life.store
        messages = [
            Message(b"%d:" % number + random.randbytes(random.choice((10, 300, 5000))))
            for number in range(TOGETHER)
        ]
        await store.apply([Append(MAIN, messages, ROOMY)], now=NOON)
        self.sent, self.sent_at = TOGETHER, len(self.life.disk.history)
        for nonce in range(1, ROUNDS + 1):
            await self._bury(store, nonce)
            await self._redrive(store, is_changed=nonce % 2 == 0)

    async def _bury(self, store: Store, nonce: int) -> None:
        held = await lock(store, nonce=nonce)
        moves: list[Operation] = [
            Move(MAIN, DEAD, each.lock, Marks("why"), is_counted=True) for each in held
        ]
        await store.apply(moves, now=NOON)
        self.moved_at.append(len(self.life.disk.history))

    async def _redrive(self, store: Store, *, is_changed: bool) -> None:
        dead = await browse(store, DEAD)
        operations: list[Operation] = [Requeue(DEAD, MAIN, [_anew(each) for each in dead])]
        if is_changed:
            changed = [Message(each.content + CHANGED) for each in dead]
            locks = [_anew(each).lock for each in dead]
            operations = [Remove(DEAD, locks, Guard.UNTOUCHED), Append(MAIN, changed, ROOMY)]
        await store.apply(operations, now=NOON, is_strict=True)
        self.moved_at.append(len(self.life.disk.history))

    def check(self, path: Path, moment: int) -> list[str]:
        """Return what is wrong with what a cut at that moment left."""
        database = open_database(path, Pacing())
        try:
            found = {
                queue: reading.browse(database, queue, 0, (1000, ROOMY)) for queue in (MAIN, DEAD)
            }
            counts = {queue: reading.counts(database, queue).messages for queue in (MAIN, DEAD)}
        finally:
            database.close()
        faults = []
        if counts != {queue: len(messages) for queue, messages in found.items()}:
            faults.append(f"counted {counts}, found {found}")
        together = [*found[MAIN], *found[DEAD]]
        numbers = sorted(int(each.content.partition(b":")[0]) for each in together)
        if numbers not in ([], [*range(self.sent)]):
            faults.append(f"{numbers} is not each of {self.sent} once")
        if not numbers and self.sent_at <= moment:
            faults.append("they were accepted and are not there")
        if found[MAIN] and found[DEAD]:
            faults.append("some were moved and some not, of those that moved together")
        answered = sum(at <= moment for at in self.moved_at)
        made = sum(_moves_before(queue, each) for queue in found for each in found[queue][:1])
        if numbers and made not in (answered, answered + 1):
            faults.append(f"{answered} moves were answered, and {made} made")
        return faults


def _moves_before(queue: QueueNumber, first: StoredMessage) -> int:
    """Return how often all were moved before the first of them had this number here."""
    return 2 * ((first.sequence - 1) // TOGETHER) + (queue == DEAD)


def _anew(message: StoredMessage) -> Requeued:
    return Requeued(Lock(message.sequence, 0, message.delivery_count), None, None)


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


async def test_every_power_cut_leaves_each_message_once(disk: FaultyDisk, tmp_path: Path) -> None:
    random = Random(7)
    life = Life(disk, tmp_path, random)
    await life.start()
    await life.come_to_rest()
    life.begin = len(disk.history)
    redrives = Redrives(life)
    await redrives.run(random)
    history = list(disk.history)
    await life.store.close()
    cuts = 0
    for moment, kind, files in power_cut.cuts(history, random, torn=1, keeps_doubtful=False):
        if moment < life.begin:
            continue
        cuts += 1
        folder = tmp_path / "cut"
        power_cut.write_files(files, folder)
        assert redrives.check(folder / FILE, moment) == [], f"cut at {moment}, {kind}"
    assert cuts > 20
