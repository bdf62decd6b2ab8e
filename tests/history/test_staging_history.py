"""Writers, stores that come and go, restarts and late tries, in any order: each batch comes once.

Every try of a batch brings rows of its own, so that what is there tells which try was published.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bendybus.broker import stage as staging
from bendybus.broker.abandon_stages import abandon_stages
from bendybus.broker.finish_staged import Finisher
from bendybus.broker.stage import StageUnderWay
from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import ArgumentInvalid, BusError
from bendybus.model.message import Message, StoredMessage
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.history.grounds import Ground, MakeStore, databases, files
from tests.unit.broker.staging_verbs import begin, grouped, grouped_as_columns, held, publish
from tests.unit.broker.topic_messages import seen

pytestmark = pytest.mark.spec("R9.3")
ENTITIES = (Queue("parts", QueueProperties(enable_partitioning=True)),)
STORES = 3
ROWS = 10
STEPS = 60
WRITERS = ("one", "two")


@dataclass(slots=True)
class WriterModel:
    """What a writer knows of itself."""

    name: str
    batch: int = 0
    tries: int = 0
    # Of the present batch: stages that are complete, and those that are being brought.
    complete: dict[str, int] = field(default_factory=dict)
    opened: list[tuple[StageUnderWay, int]] = field(default_factory=list)
    # Of each batch the tries that it ever asked to publish, and the batches that it was told of.
    asked: dict[int, set[int]] = field(default_factory=dict)
    told: set[int] = field(default_factory=set)


class World:
    """Some writers and a broker, and everything that may happen to them."""

    def __init__(self, folder: Path, make_store: MakeStore, rng: random.Random) -> None:
        self.folder = folder
        self.make_store = make_store
        self.rng = rng
        self.clock = ManualClock()
        self.writers = [WriterModel(name) for name in WRITERS]

    @asynccontextmanager
    async def life(self) -> AsyncIterator[LocalBroker]:
        async with local_broker(
            self.folder, ENTITIES, self.clock, stores=STORES, make_store=self.make_store
        ) as broker:
            yield broker
        for writer in self.writers:
            writer.opened.clear()

    async def step(self, broker: LocalBroker) -> None:
        writer = self.rng.choice(self.writers)
        # What is refused is tried again later, or not at all.
        with suppress(BusError):
            acts = [self._open, self._complete, self._publish, self._abandon]
            acts += [self.publish_again, self._switch, self._finish]
            [act] = self.rng.choices(acts, weights=[3, 3, 3, 1, 1, 1, 1])
            await act(broker, writer)

    async def _open(self, broker: LocalBroker, writer: WriterModel) -> None:
        queue = broker.queue("parts")
        stage = await begin(broker, queue, writer.batch, writer=writer.name)
        number = writer.tries
        writer.tries += 1
        try:
            pack = self.rng.choice([grouped, grouped_as_columns])
            await stage.add(pack(queue, rows(writer, number)))
        except BusError:
            await stage.cancel()
            raise
        writer.opened.append((stage, number))

    async def _complete(self, broker: LocalBroker, writer: WriterModel) -> None:
        del broker
        if writer.opened:
            stage, number = writer.opened.pop(self.rng.randrange(len(writer.opened)))
            try:
                receipt = await stage.complete()
            except BusError:
                await stage.cancel()
                raise
            # A try of an earlier batch comes late.
            writer.complete[receipt.stage] = number

    async def _publish(self, broker: LocalBroker, writer: WriterModel) -> None:
        if not writer.complete:
            return
        stage = self.rng.choice(list(writer.complete))
        number = writer.complete[stage]
        writer.asked.setdefault(writer.batch, set()).add(number)
        with suppress(ArgumentInvalid):
            await publish(broker, broker.queue("parts"), [stage], writer.batch, writer=writer.name)
            writer.told.add(writer.batch)
            writer.batch += 1
            writer.complete.clear()

    async def publish_again(self, broker: LocalBroker, writer: WriterModel) -> None:
        if writer.told:
            batch = self.rng.choice(sorted(writer.told))
            stages = list(writer.complete)[:1]
            answer = await publish(broker, broker.queue("parts"), stages, batch, writer=writer.name)
            assert answer.already

    async def _abandon(self, broker: LocalBroker, writer: WriterModel) -> None:
        if writer.complete:
            stage = self.rng.choice(list(writer.complete))
            under_way = broker.catalog.holdings.under_way
            await abandon_stages(broker.queue("parts"), writer.name, [stage], under_way, self.clock)

    async def _switch(self, broker: LocalBroker, writer: WriterModel) -> None:
        del writer
        away = [store for store in broker.stores if not store.is_online]
        if away:
            await away[0].bring_online()
        else:
            await self.rng.choice(broker.stores).take_offline("drill")

    async def _finish(self, broker: LocalBroker, writer: WriterModel) -> None:
        del writer
        await Finisher(broker.namespaces, self.clock).look()


def rows(writer: WriterModel, number: int) -> list[Message]:
    """Make the rows of a try; half of them have a key."""
    return [
        Message(
            f"{writer.name}.{writer.batch}.{number}.{at}".encode(),
            partition_key=str(at) if at % 2 else None,
        )
        for at in range(ROWS)
    ]


def check(world: World, there: list[str]) -> None:
    """Compare what is there with what the writers know."""
    assert len(there) == len(set(there)), "a row came twice"
    for writer in world.writers:
        for batch in range(writer.batch + 1):
            prefix = f"{writer.name}.{batch}."
            of_batch = [each for each in there if each.startswith(prefix)]
            tries = {int(each.split(".")[2]) for each in of_batch}
            assert tries <= writer.asked.get(batch, set()), "what nobody asked for is there"
            assert len(of_batch) in (0, ROWS), "a batch is there in part"
            assert len(tries) <= 1, "two tries of a batch are there"
            assert of_batch or batch not in writer.told, "a batch is lost"


@pytest.fixture
def ground(request: pytest.FixtureRequest) -> Ground:
    if request.param == "databases":
        return databases(request.getfixturevalue("blank_stores"))
    return files


@pytest.mark.parametrize(
    ("ground", "histories"),
    [
        pytest.param("files", 6, marks=pytest.mark.timeout(240)),
        pytest.param("databases", 2, marks=pytest.mark.timeout(240)),
        pytest.param("files", 300, marks=[pytest.mark.prove, pytest.mark.timeout(3600)]),
        pytest.param("databases", 100, marks=[pytest.mark.prove, pytest.mark.timeout(3600)]),
    ],
    indirect=["ground"],
)
async def test_in_any_history_every_batch_is_there_once(
    ground: Ground, histories: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_MESSAGES_MAX", 3)
    told = 0
    for history in range(histories):
        seed = random.getrandbits(32)
        folder = tmp_path / str(history)
        folder.mkdir()
        with ground(STORES) as make_store:
            world = World(folder, make_store, random.Random(seed))
            there = await lived_through(world)
        try:
            check(world, there)
        except AssertionError as error:
            raise AssertionError(f"{error}, with seed {seed}") from error
        told += sum(len(writer.told) for writer in world.writers)
    assert told * 3 >= histories, "hardly anything was published"


async def lived_through(world: World) -> list[str]:
    """Live, and return what is there in the end."""
    for _ in range(3):
        async with world.life() as broker:
            for _ in range(STEPS // 3):
                await world.step(broker)
    async with world.life() as broker:
        finisher = Finisher(broker.namespaces, world.clock)
        await finisher.look()
        for writer in world.writers:
            await world.publish_again(broker, writer)
        return [_body(each) for each in await held(broker.queue("parts"))]


def _body(message: StoredMessage) -> str:
    """Return what a row said: it is the content, or a part of it if it came as a column."""
    return message.content.decode() if message.content[:1].isalpha() else seen(message)[0]
