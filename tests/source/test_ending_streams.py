"""A stream that ends at sequence numbers: what came before them is read, and nothing else."""

import json
from contextlib import ExitStack

import pytest

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place
from bendybus.client.errors import ClientError
from bendybus.model.ids import sequence_number
from bendybus.pipelines.ending import ending_now
from pyspark_servicebus.described_fragments import FragmentUnknown
from tests.source.micro_batches import Checkpoint, Driver
from tests.spark.conftest import Bus
from tests.spark.kills import STORES, store_away
from tests.spark.traffic import count_of, numbered, send

pytestmark = [pytest.mark.spec("R9.1")]

MODES = {"consume": {"mode": "consume", "reader": "r", "readerToken": "t"}, "browse": {}}
FAR = json.dumps({"0": sequence_number(0, 1_000_000)})


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, str]:
    return MODES[request.param]


def ending(bus: Bus, queue: str) -> dict[str, str]:
    with BulkClient(bus.connection_string, bus.flight_endpoint) as client:
        return ending_now(client, Place(queue))


@pytest.mark.parametrize("is_oldest_spark", [False, True], ids=["newest", "4.1"])
def test_what_was_there_is_read_and_what_comes_later_is_for_the_next_run(
    bus: Bus, mode: dict[str, str], is_oldest_spark: bool, is_partitioned: bool
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    options = bus.source(queue, **mode, maxMessagesPerTrigger=25)
    send(bus, queue, numbered(60))
    checkpoint = Checkpoint()
    for count in (60, 90):
        given = options | ending(bus, queue)
        send(bus, queue, numbered(30, first=count))
        Driver(given, checkpoint, is_oldest_spark=is_oldest_spark).run()
        assert sorted(checkpoint.table) == list(range(count))
    assert count_of(bus, queue) == (30 if mode else 120)


def test_of_two_ends_the_earlier_one_counts(bus: Bus, mode: dict[str, str]) -> None:
    queue = bus.queue()
    options = bus.source(queue, **mode)
    send(bus, queue, numbered(20))
    earlier = options | ending(bus, queue)
    send(bus, queue, numbered(20, first=20))
    checkpoint = Checkpoint()
    for given, count in ((earlier, 20), (options | {"endingOffsets": FAR}, 45)):
        driver = Driver(given, checkpoint)
        driver.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]  # Spark asks if it has it
        send(bus, queue, numbered(5, first=max(40, count)))
        driver.run()
        driver.stop()
        assert sorted(checkpoint.table) == list(range(count))


def test_an_end_that_is_far_away_is_come_to_message_by_message(
    bus: Bus, mode: dict[str, str]
) -> None:
    queue = bus.queue()
    driver = Driver(bus.source(queue, **mode, endingOffsets=FAR), Checkpoint())
    for first in (0, 10):
        send(bus, queue, numbered(10, first=first))
        driver.run()
        assert sorted(driver.checkpoint.table) == list(range(first + 10))


def test_an_end_in_a_fragment_that_there_is_not_is_refused(bus: Bus, mode: dict[str, str]) -> None:
    queue = bus.queue()
    driver = Driver(bus.source(queue, **mode, endingOffsets='{"7": 1}'), Checkpoint())
    with pytest.raises((FragmentUnknown, ClientError), match="no fragment 7"):
        driver.run()


def test_fragments_whose_store_is_away_have_no_end(bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    with ExitStack() as stack:
        for store in range(STORES):
            ends = json.loads(ending(bus, queue)["endingOffsets"])
            assert len(ends) == STORES - store
            stack.enter_context(store_away(bus, store))
        assert ending(bus, queue) == {}
