"""A message is there after a power cut if, and only if, its id is known: both are of one commit.

So a sender that sends again what was not acknowledged neither loses it nor doubles it. Scheduled
messages that come due meanwhile are there once, too.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from bendybus.model.digests import digest_of
from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Activate, Append
from bendybus.store.sqlite.seen_index import split
from bendybus.testing.faulty_disk import FaultyDisk, faulty_disk
from bendybus.testing.store_contract.subject import MAIN, NOON, ROOMY, after
from tests.store import power_cut
from tests.store.ledger import inspect
from tests.store.life import FILE, Life
from tests.store.test_power_cut import seeded

WINDOW_START = Instant(NOON - 1000)


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


def known_ids(path: Path) -> set[bytes]:
    """Read the ids that a store would know."""
    connection = apsw.Connection(str(path))
    rows: Any = connection.execute("SELECT digests FROM seen").fetchall()
    connection.close()
    return {digest for (digests,) in rows for digest in split(digests)}


async def test_after_every_power_cut_messages_and_ids_agree(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    life = Life(disk, tmp_path, seeded(1))
    await life.start()
    acknowledged: list[tuple[int, set[bytes]]] = []
    for step in range(12):
        ids = [f"id {n}" for n in range(2 * step, 2 * step + 4)]
        messages = [
            Message(each.encode(), each, scheduled_at=after(step) if step % 3 == 0 else None)
            for each in ids
        ]
        append = Append(MAIN, messages, ROOMY, duplicates_since=WINDOW_START)
        await life.store.apply([append], now=NOON)
        acknowledged.append((len(disk.history), {each.encode() for each in ids}))
        due = await life.store.due(now=after(step - 2), count_max=10)
        if due:
            numbers = [each.lock.sequence for each in due]
            await life.store.apply([Activate(MAIN, numbers)], now=after(step - 2))
    await life.come_to_rest()

    count = 0
    for moment, kind, files in power_cut.cuts(list(disk.history), seeded(2), torn=3):
        if moment < life.begin:
            continue
        count += 1
        power_cut.write_files(files, tmp_path / "cut")
        present, faults = inspect(tmp_path / "cut" / FILE)
        told = [ids for answered, ids in acknowledged if answered <= moment]
        where = f"power cut at {moment}, {kind}"
        assert not faults, where
        assert len(present) == len(set(present)), where
        assert set().union(*told) <= set(present), where
        expected = {digest_of(Message(b"", content.decode())) for content in present}
        assert known_ids(tmp_path / "cut" / FILE) == expected, where
    assert count > 100
    await life.store.close()
