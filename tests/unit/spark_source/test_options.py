"""Options of the source: each is known, of its kind, and for what is being done."""

import pickle
from datetime import UTC, datetime

import pytest

from bendybus.model.addresses import Address
from bendybus.model.ids import SubQueue
from pyspark_servicebus.option_names import OPTIONS, Given, OptionInvalid, Use
from pyspark_servicebus.options import (
    Edge,
    Mode,
    development,
    reading_of,
    streaming_of,
    writing_of,
)

CONSUME = {"entity": "orders", "mode": "consume", "reader": "capture"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"entty": "orders"}, "no option entty; did you mean entity"),
        ({}, "option entity is missing"),
        ({"entity": " "}, "option entity is empty"),
        ({"entity": "orders", "states": "activ"}, "'activ'; did you mean active"),
        ({"entity": "orders", "numTasks": "0"}, "numTasks is '0'; it must be from 1"),
        ({"entity": "orders", "numTasks": "two"}, "numTasks is 'two'"),
        ({"entity": "orders", "skipOffline": "yes"}, "must be true or false"),
        ({"entity": "orders", "subQueue": "dead"}, "deadletter"),
        ({"entity": "orders", "startingOffsets": "erliest"}, "did you mean earliest"),
        ({"entity": "orders", "startingOffsets": '{"a": 1}'}, "startingOffsets: .*such as"),
        ({"entity": "orders", "startingTimestamp": "noon"}, "2026-11-16T08:30:00Z"),
        ({"entity": "orders", "connectionString": "abc"}, "option connectionString: "),
        ({"entity": "orders", "mode": "consume"}, "for spark.readStream"),
        ({"entity": "orders", "reader": "x"}, "reader is for spark.readStream, not for spark.read"),
        ({"entity": "orders", "transactionId": "x"}, "transactionId is for df.write"),
    ],
)
def test_a_batch_read_refuses_wrong_options_and_says_what_is_right(
    options: dict[str, str], why: str
) -> None:
    with pytest.raises(OptionInvalid, match=why):
        reading_of(Given(options))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"entity": "orders", "mode": "consume"}, "option reader is missing"),
        ({"entity": "orders", "reader": "x"}, "reader is for mode=consume"),
        (CONSUME | {"startingOffsets": "earliest"}, "startingOffsets is for mode=browse"),
        (CONSUME | {"states": "active"}, "states is for mode=browse"),
        (CONSUME | {"reader": "x" * 129}, "more than 128"),
        (
            CONSUME | {"endingOffsets": "latest"},
            "endingOffsets=latest is for spark.read: .*availableNow",
        ),
        (CONSUME | {"endingOffsets": '{"0": "a"}'}, "endingOffsets: .*such as"),
        (CONSUME | {"endingTimestamp": "0"}, "endingTimestamp is for spark.read, not for"),
        (CONSUME | {"maxMessagesPerTrigger": "-1"}, "maxMessagesPerTrigger is '-1'"),
    ],
)
def test_a_stream_refuses_wrong_options(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionInvalid, match=why):
        streaming_of(Given(options))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"entity": "orders/$DeadLetterQueue"}, "cannot be written"),
        ({"entity": "orders", "transactionId": "x" * 129}, "more than 128"),
        ({"entity": "orders", "states": "active"}, "not for df.write"),
    ],
)
def test_a_write_refuses_wrong_options(options: dict[str, str], why: str) -> None:
    with pytest.raises(OptionInvalid, match=why):
        writing_of(Given(options), Use.WRITE)


def test_names_of_options_and_words_have_no_case() -> None:
    streaming = streaming_of(Given({"ENTITY": "orders", "Mode": "Consume", "reader": "a"}))
    assert (streaming.mode, streaming.reader) == (Mode.CONSUME, "a")


def test_options_that_spark_adds_are_not_ours() -> None:
    given = Given({"entity": "orders", "checkpointLocation": "/somewhere"})
    assert writing_of(given, Use.WRITE_STREAM).address == Address("orders")


@pytest.mark.parametrize(
    ("options", "address"),
    [
        ({"entity": "orders"}, Address("orders")),
        ({"entity": "news", "subscription": "all"}, Address("news", "all")),
        (
            {"entity": "news/Subscriptions/all/$DeadLetterQueue"},
            Address("news", "all", SubQueue.DEAD_LETTER),
        ),
        (
            {"entity": "orders", "subQueue": "deadLetter"},
            Address("orders", None, SubQueue.DEAD_LETTER),
        ),
    ],
)
def test_an_entity_is_named_by_its_parts_or_its_path(
    options: dict[str, str], address: Address
) -> None:
    assert reading_of(Given(options)).address == address


@pytest.mark.parametrize(
    "text",
    ["2026-11-16T08:30:00Z", "2026-11-16T09:30:00+01:00", "2026-11-16 08:30", "1794817800000"],
)
def test_a_time_is_written_in_any_of_the_usual_ways(text: str) -> None:
    reading = reading_of(Given({"entity": "orders", "startingTimestamp": text}))
    assert reading.since == datetime(2026, 11, 16, 8, 30, tzinfo=UTC)


def test_numbers_by_fragment_are_an_edge() -> None:
    reading = reading_of(Given({"entity": "orders", "startingOffsets": '{"0": 17}'}))
    assert (reading.start, reading.end) == ({0: 17}, Edge.LATEST)


def test_the_environment_says_where_the_broker_is(monkeypatch: pytest.MonkeyPatch) -> None:
    there = "Endpoint=sb://there;SharedAccessKeyName=a;SharedAccessKey=b;"
    monkeypatch.setenv("BENDYBUS_CONNECTION_STRING", there)
    assert reading_of(Given({"entity": "orders"})).bus.connection_string == there
    monkeypatch.delenv("BENDYBUS_CONNECTION_STRING")
    assert reading_of(Given({"entity": "orders"})).bus.connection_string == development()


def test_what_workers_get_can_be_sent_and_shows_no_key() -> None:
    streaming = streaming_of(Given(CONSUME))
    assert pickle.loads(pickle.dumps(streaming)) == streaming  # noqa: S301 - our own
    assert "SAS_KEY_VALUE" not in repr(streaming)


def test_every_option_is_on_the_page_of_the_source() -> None:
    from tests.tidy.tree import ROOT

    page = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    assert [name for name in OPTIONS if f"`{name}`" not in page] == []
