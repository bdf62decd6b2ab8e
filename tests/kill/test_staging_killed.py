"""The broker is killed while a writer stages and publishes, and every row comes exactly once.

The writer does as Spark does: it brings a batch in tasks, says which stages are the batch, and when
anything fails it does the whole batch again, cut into other tasks. A batch that it was told is
published is never brought again, and one that it was not told of always is.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bendybus.broker.clock import SystemClock
from bendybus.broker.finish_staged import Finisher
from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place, StageLabel
from bendybus.client.errors import ClientError
from bendybus.testing.broker_process import BrokerProcess, broker_process
from bendybus.testing.local_broker import LocalBroker
from tests.kill.stored_messages import opened
from tests.unit.broker.staging_verbs import rows_left

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
QUEUES: Final = ("conventional", "partitioned")
WRITER: Final = "query"
ROWS: Final = 4000
SCHEMA: Final = pa.schema([("partition_key", pa.string()), ("body", pa.binary())])
KILL_SECONDS_MAX: Final = 0.15
BATCH_SECONDS_MAX: Final = 60
PAUSE_SECONDS: Final = 0.05


class Writer:
    """Writes batch after batch to one queue, until it is told to stop."""

    def __init__(self, broker: BrokerProcess, queue: str, seed: int) -> None:
        self._broker = broker
        self._place = Place(queue)
        self._rng = random.Random(seed)
        self.told: set[int] = set()

    def write_all(self, batches: Iterable[int]) -> None:
        """Write batches one after the other."""
        for batch in batches:
            self.write(batch)

    def write(self, batch: int) -> None:
        """Write a batch, as often as it takes."""
        attempt = 0
        deadline = time.monotonic() + BATCH_SECONDS_MAX
        while batch not in self.told:
            try:
                self._try(batch, attempt)
                self.told.add(batch)
            except ClientError as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"batch {batch} cannot be written") from error
                attempt += 1
                time.sleep(PAUSE_SECONDS)

    def _try(self, batch: int, attempt: int) -> None:
        tasks = self._rng.randint(1, 3)
        with BulkClient(
            self._broker.connection_string(), f"grpc://localhost:{self._broker.flight_port}"
        ) as client:
            stages = [
                client.stage(
                    self._place,
                    SCHEMA,
                    [rows_of(batch, task, tasks)],
                    StageLabel(WRITER, batch, task, attempt),
                ).stage
                for task in range(tasks)
            ]
            client.publish(self._place, WRITER, batch, stages)


def rows_of(batch: int, task: int, tasks: int) -> pa.RecordBatch:
    """Make the rows of one task; half of them have a key."""
    numbers = range(task, ROWS, tasks)
    return pa.record_batch(
        [
            pa.array([str(at % 50) if at % 2 else None for at in numbers], pa.string()),
            pa.array([b"%d.%d" % (batch, at) for at in numbers]),
        ],
        schema=SCHEMA,
    )


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(3, "files", marks=pytest.mark.timeout(240)),
        pytest.param(60, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(5, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_every_row_comes_once_however_often_the_broker_is_killed(
    kills: int, queue: str, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    with broker_process(CONFIG, stores=stores, has_flight=True) as broker:
        writer = Writer(broker, queue, seed)
        batches = cut_off = 0
        for _ in range(kills):
            more = range(batches, batches + rng.randint(3, 5))
            writing = asyncio.create_task(asyncio.to_thread(writer.write_all, more))
            await asyncio.wait([writing], timeout=rng.uniform(0, KILL_SECONDS_MAX))
            cut_off += not writing.done()
            broker.kill()
            broker.start()
            await writing
            batches = more.stop
        await asyncio.to_thread(writer.write, batches)
        assert broker.stop() == 0
        async with opened(broker, SystemClock()) as local:
            await Finisher(local.namespaces, SystemClock()).look()
            counted = Counter(await bodies(local, queue))
            [chunks, _] = await rows_left(local)
            assert chunks == 0

    expected = {f"{batch}.{at}" for batch in range(batches + 1) for at in range(ROWS)}
    assert expected - counted.keys() == set(), f"rows are lost, with seed {seed}"
    assert counted.keys() - expected == set(), seed
    doubled = [body for body, count in counted.items() if count > 1]
    assert doubled == [], f"rows are doubled, with seed {seed}"
    assert cut_off > 0, "no kill cut anything off"


async def bodies(local: LocalBroker, queue: str) -> list[str]:
    """Return the bodies of all messages."""
    found: list[str] = []
    for source in local.queue(queue).main.sources:
        first = 0
        while page := await source.store.browse(
            source.number, from_sequence=first, count_max=5000, bytes_max=1 << 24
        ):
            found += [each.content.rpartition(b"\x53\x75\xa0")[2][1:].decode() for each in page]
            first = page[-1].sequence + 1
    return found
