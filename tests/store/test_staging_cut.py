"""A power cut among stages and publishes: every message of a decided batch comes once.

As `test_power_cut`, for a writer that brings batches, some of them in two tries. Whatever a cut
leaves, the store is opened on it and the writer goes on as it would: what was decided is finished,
and what was not is asked for again.
"""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from bendybus.columns.one_by_one import read_content
from bendybus.model.message import Message
from bendybus.model.operations import Operation
from bendybus.model.packed_messages import PackedMessages, PackedRows
from bendybus.model.staging import (
    CompleteStage,
    Conclude,
    Decide,
    Decision,
    KeepChunk,
    OpenStage,
    WriterKey,
)
from bendybus.store.port import Store
from bendybus.store.sql import applying, reading, staging
from bendybus.store.sqlite.database import Pacing, SqliteDatabase, open_database
from bendybus.testing.faulty_disk import FaultyDisk, faulty_disk
from bendybus.testing.store_contract.staging import publish_next, publishing
from bendybus.testing.store_contract.subject import MAIN, NOON, ROOMY
from tests.store import power_cut
from tests.store.life import FILE, Life
from tests.unit.broker.staging_verbs import columns_of

WRITER = WriterKey(MAIN, "writer")
BATCHES = 2
CHUNKS = 2


@dataclass(slots=True)
class Writing:
    """What was asked for and answered when, as places in the disk's history."""

    life: Life
    random: Random
    # Of each batch the messages of its two tries, and when one of them was asked to be it.
    tries: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    decided: dict[int, int] = field(default_factory=dict)
    concluded: dict[int, int] = field(default_factory=dict)
    stages: int = 0
    as_columns: bool = False

    @property
    def moment(self) -> int:
        return len(self.life.disk.history)

    async def run(self) -> None:
        for batch in range(BATCHES):
            first, second = await self._stage(batch, 0), await self._stage(batch, 1)
            await self._publish(batch, self.random.choice((first, second)))

    async def _stage(self, batch: int, attempt: int) -> int:
        store: Store = self.life.store
        self.stages += 1
        number, ordinal = self.stages, 0
        await store.apply([OpenStage(WRITER, batch, number)], now=NOON)
        brought: list[int] = []
        for ordinal in range(CHUNKS):
            numbers = [1000 * number + 10 * ordinal + at for at in range(4)]
            contents = [
                b"%d:" % each + self.random.randbytes(self.random.choice((5, 500)))
                for each in numbers
            ]
            messages = self._messages(contents)
            await store.apply([KeepChunk(MAIN, number, ordinal, messages, ROOMY)], now=NOON)
            brought += numbers
        await store.apply([CompleteStage(number, len(brought), [0])], now=NOON)
        before = self.tries.get(batch, ([], []))
        self.tries[batch] = (before[0], brought) if attempt else (brought, [])
        return number

    def _messages(self, contents: list[bytes]) -> PackedMessages | PackedRows:
        if self.as_columns:
            [columns] = columns_of([Message(content) for content in contents])
            return columns
        return PackedMessages(b"".join(contents), array("I", map(len, contents)))

    def _body(self, content: bytes) -> bytes:
        if not self.as_columns:
            return content
        body = read_content(content, None).body
        assert body is not None
        return body

    async def _publish(self, batch: int, stage: int) -> None:
        store: Store = self.life.store
        await store.apply([Decide(WRITER, batch, [stage])], now=NOON)
        self.decided[batch] = self.moment
        while await publish_next(store, [stage]):
            continue
        await store.apply([Conclude(WRITER, batch)], now=NOON)
        self.concluded[batch] = self.moment

    def check(self, path: Path, moment: int) -> list[str]:
        """Go on from what a cut at that moment left, and return what is wrong then."""
        database = open_database(path, Pacing())
        try:
            for batch in range(BATCHES):
                _repeat(database, batch)
            found = reading.browse(database, MAIN, 0, (10_000, ROOMY))
            counted = reading.counts(database, MAIN).messages
        finally:
            database.close()
        numbers = Counter(int(self._body(each.content).partition(b":")[0]) for each in found)
        faults = [f"{number} came {count} times" for number, count in numbers.items() if count > 1]
        if counted != len(found):
            faults.append(f"counted {counted}, found {len(found)}")
        for batch, tries in self.tries.items():
            there = [[number for number in each if number in numbers] for each in tries]
            if there not in ([tries[0], []], [[], tries[1]], [[], []]):
                faults.append(f"of batch {batch} there is {there}")
            if not any(there) and self.decided.get(batch, moment + 1) <= moment:
                faults.append(f"batch {batch} was decided and is not there")
        return faults


def _make(database: SqliteDatabase, *operations: Operation) -> list[object]:
    """Make operations and commit them."""
    database.begin(is_synced=False)
    answers: list[object] = list(applying.make_all(database, operations, NOON))
    database.execute("COMMIT")
    return answers


def _repeat(database: SqliteDatabase, batch: int) -> None:
    """Do as a writer would that does not know how far its batch has come: stage anew, publish."""
    stage = 100 + batch
    [is_opened] = _make(database, OpenStage(WRITER, batch, stage))
    stages = [stage] if is_opened else []
    if is_opened:
        # Nothing in it, so that whatever is found has come from the life before.
        _make(database, CompleteStage(stage, 0, [0]))
    while True:
        [decision] = _make(database, Decide(WRITER, batch, stages))
        assert isinstance(decision, Decision)
        if decision.is_published:
            return
        while chunks := staging.next_chunks(database, MAIN, decision.stages, 1):
            assert _make(database, *publishing(chunks[0]))[-1] == []
        _make(database, Conclude(WRITER, decision.batch))


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


async def write(
    disk: FaultyDisk, folder: Path, random: Random, *, as_columns: bool = False
) -> Writing:
    """Write some batches, on a disk that remembers."""
    life = Life(disk, folder, random)
    await life.start()
    writing = Writing(life, random, as_columns=as_columns)
    await writing.run()
    await life.come_to_rest()
    return writing


def check_cuts(writing: Writing, folder: Path, *, torn: int) -> int:
    """Cut the power everywhere; return how many cuts there were."""
    history = list(writing.life.disk.history)
    count = 0
    for moment, kind, files in power_cut.cuts(history, writing.random, torn=torn):
        if moment >= writing.life.begin:
            count += 1
            power_cut.write_files(files, folder)
            faults = writing.check(folder / FILE, moment)
            assert not faults, f"power cut at {moment} of {len(history)}, {kind}: {faults}"
    return count


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize("as_columns", [False, True], ids=["contents", "columns"])
async def test_every_power_cut_leaves_each_message_of_a_decided_batch_once(
    disk: FaultyDisk, tmp_path: Path, *, as_columns: bool
) -> None:
    writing = await write(disk, tmp_path, Random(3), as_columns=as_columns)
    assert check_cuts(writing, tmp_path / "cut", torn=1) > 100
    await writing.life.store.close()


async def test_a_store_that_publishes_and_forgets_in_two_commits_is_caught(
    disk: FaultyDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def in_two(self: Writing, batch: int, stage: int) -> None:
        store: Store = self.life.store
        await store.apply([Decide(WRITER, batch, [stage])], now=NOON)
        self.decided[batch] = self.moment
        while chunks := await store.next_chunks(MAIN, [stage]):
            for operation in publishing(chunks[0]):
                await store.apply([operation], now=NOON)
        await store.apply([Conclude(WRITER, batch)], now=NOON)

    monkeypatch.setattr(Writing, "_publish", in_two)
    writing = await write(disk, tmp_path, Random(3))
    with pytest.raises(AssertionError, match="came 2 times"):
        check_cuts(writing, tmp_path / "cut", torn=0)
    await writing.life.store.close()
