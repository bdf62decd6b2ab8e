"""A power cut among publishes: copies come and go with their contents, all or none.

As `test_power_cut`, for a topic with two subscriptions: at every moment the store must open, hold
each publish for both or for neither, and know exactly who still holds which content.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import apsw
import pytest

from bendybus.model.entity import Subscription, Topic
from bendybus.model.ids import EntityNumber, QueueNumber
from bendybus.model.message import Message
from bendybus.model.operations import ChangedCopy, Publish, Remove, Taker
from bendybus.store.port import EntityRecord, FragmentPlace, ParentTopic, Store
from bendybus.store.sql import reading
from bendybus.store.sqlite.database import Pacing, open_database
from bendybus.testing.faulty_disk import FaultyDisk, faulty_disk
from bendybus.testing.store_contract.subject import HERE, NOON, ROOMY, lock, locks
from tests.store import power_cut
from tests.store.life import FILE, Life

TOPIC, FIRST, SECOND = QueueNumber(9), QueueNumber(13), QueueNumber(17)
PUBLISHES = 12

# Each must be none: bodies that nobody holds, messages without theirs, wrong counts of holders or
# messages, and bytes that are not those of the bodies.
SOUND = """
SELECT (SELECT count(*) FROM body WHERE id NOT IN (SELECT body FROM message)),
       (SELECT count(*) FROM message WHERE body NOT IN (SELECT id FROM body)),
       (SELECT count(*) FROM shared_body s
         WHERE holders < (SELECT count(*) FROM message WHERE body = s.body) OR holders < 1),
       (SELECT count(*) FROM message m WHERE
         (SELECT count(*) FROM message WHERE body = m.body) >
         ifnull((SELECT holders FROM shared_body WHERE body = m.body), 1)),
       (SELECT count(*) FROM queue q
         WHERE message_count <> (SELECT count(*) FROM message WHERE queue = q.number)),
       (SELECT total(octet_length(content)) FROM body) - (SELECT total(message_bytes) FROM queue)
"""


@dataclass(slots=True)
class News:
    """What was asked for and answered when, as places in the disk's history."""

    life: Life
    # Of each publish, and of the removal of its copy in a queue: when it was answered.
    published: dict[int, int] = field(default_factory=dict)
    removed: dict[tuple[QueueNumber, int], int] = field(default_factory=dict)
    asked: set[tuple[QueueNumber, int]] = field(default_factory=set)

    async def run(self, random: Random) -> None:
        store: Store = self.life.store
        for nonce in range(PUBLISHES):
            first = len(self.published)
            # Several are kept as a run until somebody looks.
            numbers = range(first, first + random.choice((1, 7)))
            messages = [
                Message(b"%d:" % number + random.randbytes(random.choice((10, 300, 5000))))
                for number in numbers
            ]
            everything = range(len(messages))
            takers = [Taker(queue, everything, [None] * len(messages)) for queue in (FIRST, SECOND)]
            changed = [ChangedCopy(FIRST, 0, Message(b"%d:changed" % first))]
            publish = Publish(TOPIC, messages, takers, changed, ROOMY)
            await store.apply([publish], now=NOON)
            self.published.update(dict.fromkeys(numbers, len(self.life.disk.history)))
            if random.random() < 0.6:
                await self._remove(store, random.choice((FIRST, SECOND)), nonce)

    async def _remove(self, store: Store, queue: QueueNumber, nonce: int) -> None:
        held = await lock(store, 3, queue=queue, nonce=nonce + 1)
        numbers = {(queue, _number(message.content)) for message in held}
        self.asked |= numbers
        await store.apply([Remove(queue, locks(held))], now=NOON)
        self.removed.update(dict.fromkeys(numbers, len(self.life.disk.history)))

    def check(self, path: Path, moment: int) -> list[str]:
        database = open_database(path, Pacing())
        try:
            found = {
                queue: {
                    _number(each.content)
                    for each in reading.browse(database, queue, 0, (1000, ROOMY))
                    if not each.content.endswith(b"changed")
                }
                for queue in (FIRST, SECOND)
            }
            # Everything has been looked at, so there are no runs any more.
            connection: apsw.Connection = database.connection
            [sound] = connection.execute(SOUND).fetchall()
        finally:
            database.close()
        faults = [] if sound == (0, 0, 0, 0, 0, 0) else [f"unsound: {sound}"]
        for number in self.published:
            is_untouched = not {(FIRST, number), (SECOND, number)} & self.asked
            if is_untouched and (number in found[FIRST]) != (number in found[SECOND]):
                faults.append(f"{number} is in one subscription alone")
            for queue in (FIRST, SECOND):
                is_there = number in found[queue]
                if is_there and self.removed.get((queue, number), moment + 1) <= moment:
                    faults.append(f"{number} was removed from {queue} and came back")
                if (queue, number) in self.asked:
                    continue
                if not is_there and self.published.get(number, moment + 1) <= moment:
                    faults.append(f"{number} was accepted and is not in {queue}")
        return faults


def _number(content: bytes) -> int:
    return int(content.partition(b":")[0])


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    with faulty_disk() as made:
        yield made


async def live(disk: FaultyDisk, folder: Path, random: Random) -> News:
    """Publish and remove, on a disk that remembers."""
    life = Life(disk, folder, random)
    await life.start()
    topic = EntityRecord(EntityNumber(3), Topic("news"), 1, (FragmentPlace(HERE, TOPIC),))
    await life.store.put_entities([topic])
    for at, queue in enumerate((FIRST, SECOND)):
        place = FragmentPlace(HERE, queue)
        parent = ParentTopic(topic.number, "news")
        name = Subscription(f"s{at}")
        await life.store.put_entities(
            [EntityRecord(EntityNumber(4 + at), name, 1, (place,), parent)]
        )
    await life.come_to_rest()
    life.begin = len(disk.history)
    news = News(life)
    await news.run(random)
    return news


def check_cuts(news: News, folder: Path, random: Random, *, torn: int) -> int:
    """Cut the power everywhere; return how many cuts there were."""
    count = 0
    history = list(news.life.disk.history)
    for moment, kind, files in power_cut.cuts(history, random, torn=torn, keeps_doubtful=False):
        if moment >= news.life.begin:
            count += 1
            power_cut.write_files(files, folder)
            faults = news.check(folder / FILE, moment)
            assert not faults, f"power cut at {moment} of {len(history)}, {kind}"
    return count


async def test_every_power_cut_leaves_copies_and_contents_in_agreement(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    random = Random(1)
    news = await live(disk, tmp_path, random)
    assert check_cuts(news, tmp_path / "cut", random, torn=1) > 100
    await news.life.store.close()


async def test_a_store_that_forgets_who_holds_a_content_is_caught(
    disk: FaultyDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bendybus.store.sql.publishing.share", lambda *_: None)
    news = await live(disk, tmp_path, Random(1))
    with pytest.raises((AssertionError, apsw.Error)):
        check_cuts(news, tmp_path / "cut", Random(1), torn=0)
    await news.life.store.close()
