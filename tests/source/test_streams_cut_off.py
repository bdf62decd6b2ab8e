"""A stream whose driver dies at any point of a batch and begins again: each message once."""

import contextlib
from functools import partial

import pytest

from bendybus.atom.properties import Kind
from bendybus.client import SubQueue
from bendybus.client.errors import ClientError
from pyspark_servicebus.browsing import MessagesGone
from pyspark_servicebus.consuming import ReservationsGone
from pyspark_servicebus.offsets import CheckpointForeign
from tests.source.micro_batches import Checkpoint, Cut, Driver, DriverDied
from tests.spark.conftest import Bus
from tests.spark.traffic import count_of, dead_letter, numbered, numbers, receive_all, send

pytestmark = [pytest.mark.spec("R9.3")]


def consuming(bus: Bus, entity: str, **options: object) -> dict[str, str]:
    given = {"mode": "consume", "reader": "r", "readerToken": "t", **options}
    return bus.source(entity, maxMessagesPerTrigger=40, timeoutSeconds=2, **given)


@pytest.mark.parametrize("is_oldest_spark", [False, True], ids=["newest", "4.1"])
@pytest.mark.parametrize("mode", ["consume", "browse"])
@pytest.mark.parametrize("at_batch", [0, 1])
@pytest.mark.parametrize("cut", Cut)
def test_a_driver_that_dies_and_begins_again_has_each_message_once(
    bus: Bus, cut: Cut, at_batch: int, mode: str, is_oldest_spark: bool
) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(100))
    given = consuming(bus, queue)
    if mode == "browse":
        given = bus.source(queue, mode=mode, maxMessagesPerTrigger=40)
    checkpoint = Checkpoint()

    with pytest.raises(DriverDied):
        Driver(given, checkpoint, is_oldest_spark=is_oldest_spark).run(cut=cut, at_batch=at_batch)
    send(bus, queue, numbered(50, first=100))
    Driver(given, checkpoint, is_oldest_spark=is_oldest_spark).run()

    assert sorted(checkpoint.table) == list(range(150))
    assert count_of(bus, queue) == (0 if mode == "consume" else 150)


def test_batches_are_bounded_and_the_lag_is_told(bus: Bus, is_partitioned: bool) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    send(bus, queue, numbered(100))
    driver = Driver(consuming(bus, queue), Checkpoint())
    with pytest.raises(DriverDied):
        driver.run(cut=Cut.BEFORE_READ)
    report = driver.reader.reportLatestOffset()
    assert report is not None
    assert sum(report["lag"].values()) == 60


@pytest.mark.parametrize("is_topic", [False, True])
def test_what_is_browsed_at_once_is_bounded_by_bytes(
    bus: Bus, is_partitioned: bool, is_topic: bool
) -> None:
    where = {"subscription": "all"} if is_topic else {}
    make = partial(bus.topic, "all") if is_topic else bus.queue
    sent_to = make(is_partitioned=is_partitioned)
    send(bus, sent_to, numbered(5))
    for bytes_max, batches in ((1, 5), (100_000, 1)):
        given = bus.source(sent_to, mode="browse", maxBytesPerTrigger=bytes_max, **where)
        checkpoint = Checkpoint()
        Driver(given, checkpoint).run()
        assert sorted(checkpoint.table) == list(range(5))
        assert len(checkpoint.ends) == batches


def test_what_comes_after_the_start_of_an_ending_stream_is_left(bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(60))
    driver = Driver(consuming(bus, queue), Checkpoint())
    driver.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]  # Spark asks if it has it
    send(bus, queue, numbered(60, first=60))
    driver.run()
    assert sorted(driver.checkpoint.table) == list(range(60))
    assert numbers(receive_all(bus, queue)) == list(range(60, 120))


def test_a_second_reader_of_the_same_name_is_refused_until_the_first_stops(bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(10))
    first = Driver(consuming(bus, queue, readerToken="first"), Checkpoint())
    first.run()
    second = Driver(consuming(bus, queue, readerToken="second"), Checkpoint())
    with pytest.raises(ClientError, match="'r'"):
        second.run()
    send(bus, queue, numbered(10, first=10))
    first.stop()
    second.run()
    assert sorted(second.checkpoint.table) == list(range(10, 20))
    with pytest.raises(ClientError) as caught:
        first.run()
    assert caught.value.condition == "reader-lost"


@pytest.mark.parametrize("is_planned", [False, True])
def test_an_old_copy_of_a_checkpoint_is_refused_unless_loss_is_allowed(
    bus: Bus, is_planned: bool
) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(60))
    checkpoint = Checkpoint()
    Driver(consuming(bus, queue), checkpoint).run()
    # A copy that was made when the second batch was about to be read, or to be planned.
    old = Checkpoint(ends=checkpoint.ends[: 2 if is_planned else 1], done=1)
    send(bus, queue, numbered(5, first=60))
    Driver(consuming(bus, queue), checkpoint).run()
    send(bus, queue, numbered(5, first=65))

    with pytest.raises((ReservationsGone, ClientError)):
        Driver(consuming(bus, queue), old).run()
    Driver(consuming(bus, queue, failOnDataLoss="false"), old).run()

    assert sorted(old.table) == list(range(65, 70))


def test_a_broker_that_is_killed_is_waited_for(bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(200))
    given = {**consuming(bus, queue), "timeoutSeconds": "30"}
    checkpoint = Checkpoint()
    driver = Driver(given, checkpoint)
    for cut in (Cut.BEFORE_READ, Cut.BEFORE_DONE, Cut.AFTER_DONE):
        with contextlib.suppress(DriverDied):
            driver.run(cut=cut, at_batch=checkpoint.done)
        bus.broker.kill()
        bus.broker.start()
    driver.run()
    assert sorted(checkpoint.table) == list(range(200))
    assert count_of(bus, queue) == 0


def test_subscriptions_and_dead_letters_are_consumed_like_queues(
    bus: Bus, is_partitioned: bool
) -> None:
    topic = bus.topic("all", "others", is_partitioned=is_partitioned)
    queue = bus.queue(is_partitioned=is_partitioned)
    send(bus, topic, numbered(50))
    send(bus, queue, numbered(20))
    dead_letter(bus, queue, 20, "Spoiled")
    subscribed, dead = Checkpoint(), Checkpoint()
    Driver(consuming(bus, topic, subscription="all"), subscribed).run()
    Driver(consuming(bus, queue, subQueue="deadletter"), dead).run()
    assert sorted(subscribed.table) == list(range(50))
    assert numbers(receive_all(bus, topic, "others")) == list(range(50))
    assert sorted(dead.table) == list(range(20))
    assert count_of(bus, queue, SubQueue.DEAD_LETTER) == 0


def test_messages_that_others_took_are_noticed_by_one_who_browses(bus: Bus) -> None:
    queue = bus.queue()
    given = bus.source(queue, mode="browse")
    checkpoint = Checkpoint()
    send(bus, queue, numbered(10))
    Driver(given, checkpoint).run()
    send(bus, queue, numbered(5, first=10))
    receive_all(bus, queue)
    send(bus, queue, numbered(5, first=20))
    with pytest.raises(MessagesGone, match="removed before this stream had read them"):
        Driver(given, checkpoint).run()
    Driver({**given, "failOnDataLoss": "false"}, checkpoint).run()
    assert sorted(checkpoint.table) == [*range(10), *range(20, 25)]


def test_a_stream_from_the_latest_begins_where_its_first_batch_was_planned(bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(20))
    given = bus.source(queue, mode="browse", startingOffsets="latest")
    checkpoint = Checkpoint()
    with pytest.raises(DriverDied):
        Driver(given, checkpoint).run(cut=Cut.BEFORE_READ)
    send(bus, queue, numbered(20, first=20))
    Driver(given, checkpoint).run()
    assert sorted(checkpoint.table) == list(range(20, 40))


def test_a_checkpoint_of_another_stream_is_refused(bus: Bus) -> None:
    queue, other = bus.queue(), bus.queue()
    checkpoint = Checkpoint()
    Driver(consuming(bus, queue), checkpoint).run()
    for given in (consuming(bus, other), bus.source(queue), consuming(bus, queue, reader="x")):
        with pytest.raises(CheckpointForeign, match="checkpointLocation of its own"):
            Driver(given, checkpoint).run()


def test_a_checkpoint_of_a_deleted_queue_is_refused(bus: Bus) -> None:
    queue = bus.queue()
    send(bus, queue, numbered(1))
    checkpoint = Checkpoint()
    given = consuming(bus, queue)
    with pytest.raises(DriverDied):
        Driver(given, checkpoint).run(cut=Cut.BEFORE_READ)
    bus.administration.delete(queue)
    with pytest.raises(ClientError, match="could not be found"):
        Driver(given, checkpoint).run()
    bus.administration.create(Kind.QUEUE, queue, {})
    send(bus, queue, numbered(1))
    with pytest.raises((ClientError, ReservationsGone)):
        Driver(given, checkpoint).run()
    assert checkpoint.table == []
