"""One store away: what cannot be reached fails by its name, or is skipped and counted."""

import pytest

from bendybus.client.errors import ClientError
from pyspark_servicebus.described_fragments import FragmentsOffline
from tests.source.micro_batches import Checkpoint, Driver
from tests.source.reading import read
from tests.spark.conftest import Bus
from tests.spark.kills import store_away
from tests.spark.traffic import count_of, numbered, send

pytestmark = pytest.mark.spec("R9.3")
STORE = 3
MESSAGES = 194


def test_a_batch_read_fails_by_name_or_skips(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(MESSAGES))
    given = bus.source(queue, timeoutSeconds=1)
    with store_away(bus, STORE):
        with pytest.raises(FragmentsOffline, match=rf"fragment \d+ of '{queue}' \(store {STORE}\)"):
            read(given)
        rows = read({**given, "skipOffline": "true"}, "fragment")
    assert f"of '{queue}' skipped: offline" in caplog.text
    assert len({row["fragment"] for row in rows}) == 15
    assert 0 < len(rows) < MESSAGES
    assert len(read(given, "body")) == MESSAGES


@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_a_stream_fails_by_name_or_skips_and_counts(bus: Bus, mode: str) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(MESSAGES))
    given = bus.source(queue, mode=mode, timeoutSeconds=1)
    if mode == "consume":
        given |= {"reader": "r", "readerToken": "t"}
    checkpoint = Checkpoint()
    with store_away(bus, STORE):
        with pytest.raises((ClientError, FragmentsOffline), match=rf"(?i)store {STORE}"):
            Driver(given, checkpoint).run()
        driver = Driver({**given, "skipOffline": "true"}, checkpoint)
        driver.run()
        assert 0 < len(checkpoint.table) < MESSAGES
        report = driver.reader.reportLatestOffset()
        assert report is not None
        assert len(report["skipped"]) == 1
    driver.run()
    assert sorted(checkpoint.table) == list(range(MESSAGES))
    assert count_of(bus, queue) == (0 if mode == "consume" else MESSAGES)


def test_a_store_that_goes_while_a_stream_runs_is_skipped_and_committed_later(bus: Bus) -> None:
    queue = bus.queue(is_partitioned=True)
    send(bus, queue, numbered(MESSAGES))
    given = bus.source(queue, mode="consume", reader="r", skipOffline="true", timeoutSeconds=1)
    driver = Driver(given | {"maxMessagesPerTrigger": "100"}, Checkpoint())
    driver.run(batches=1)
    with store_away(bus, STORE):
        driver.run()
        assert len(driver.checkpoint.table) < MESSAGES
    driver.run()
    assert sorted(driver.checkpoint.table) == list(range(MESSAGES))
    assert count_of(bus, queue) == 0
