"""Reading through the bulk door: every message once, in order, and nothing else."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from bendybus.client.bulk_values import Place, Range
from bendybus.client.errors import ServerBusy
from bendybus.columns.arrow_types import arrow_schema
from bendybus.content.plain_message import PlainMessage
from bendybus.model.ids import sequence_number
from tests.flight.bulk_bus import (
    PLACES,
    BareClient,
    aside,
    bodies_of,
    bulk_bus,
    numbered,
    plain,
    rows_of,
    until,
)


@pytest.mark.spec("R9.1")
@pytest.mark.parametrize("place", PLACES, ids=str)
async def test_all_messages_are_read_once_and_none_is_touched(tmp_path: Path, place: Place) -> None:
    bodies = numbered(2500)
    async with bulk_bus(tmp_path) as bus:
        for at in range(0, len(bodies), 100):
            await bus.send(place.entity, plain(bodies[at : at + 100]))
        once = await bus.rows(place)
        twice = await bus.rows(place, batch_rows=100)

    assert sorted(bodies_of(once)) == sorted(bodies)
    assert once == twice
    numbers = [row["sequence_number"] for row in once]
    assert numbers == sorted(set(numbers))
    assert all(row["fragment"] == row["sequence_number"] >> 48 for row in once)
    assert all(row["delivery_count"] == 0 for row in once)


async def test_an_empty_entity_has_its_columns_and_no_rows(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        assert await bus.rows(Place("parts")) == []


async def test_only_the_columns_asked_for_come_in_their_order(tmp_path: Path) -> None:
    names = ["body", "sequence_number", "subject"]
    async with bulk_bus(tmp_path) as bus:
        await bus.send("orders", [PlainMessage(body=b"x", label="new")])
        [batch] = await aside(lambda: list(bus.client().read(Place("orders"), columns=names)))

    assert batch.schema == arrow_schema(names)
    assert batch.to_pylist() == [{"body": b"x", "sequence_number": 1, "subject": "new"}]


async def test_the_columns_of_a_ticket_can_be_asked_for_beforehand(tmp_path: Path) -> None:
    names = ["body", "enqueued_time"]
    async with bulk_bus(tmp_path) as bus:
        bare = BareClient(bus.endpoint)
        ticket = json.dumps({"entity": "orders", "columns": names}).encode()
        descriptor = flight.FlightDescriptor.for_command(ticket)
        options = flight.FlightCallOptions(headers=bare.headers)
        told = await aside(bare.client.get_schema, descriptor, options)

    assert told.schema == arrow_schema(names)


async def test_a_range_ends_before_its_last_number(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        for number in range(160):
            await bus.send("parts", plain([b"%d" % number]))
        ranges = [
            Range(5, sequence_number(5, 3), sequence_number(5, 6)),
            Range(2, sequence_number(2, 10), sequence_number(2, 100)),
        ]
        rows = await bus.rows(Place("parts"), ranges=ranges, columns=["sequence_number"])

    assert [row["sequence_number"] for row in rows] == [
        *(sequence_number(5, counter) for counter in (3, 4, 5)),
        sequence_number(2, 10),
    ]


@pytest.mark.spec("R9.1")
async def test_a_store_that_is_away_fails_the_read_with_its_number(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        for number in range(32):
            await bus.send("parts", plain([b"%d" % number]))
        await bus.broker.stores[2].take_offline("a drill")
        with pytest.raises(ServerBusy, match=r"store 2, which holds fragment \d+ of 'parts'"):
            await bus.rows(Place("parts"))


@pytest.mark.spec("R9.1")
async def test_a_store_that_is_away_is_skipped_and_told_if_so_asked(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        for number in range(32):
            await bus.send("parts", plain([b"%d" % number]))
        described = await aside(bus.client().describe, Place("parts"))
        await bus.broker.stores[2].take_offline("a drill")
        reading = bus.client().read(Place("parts"), skip_offline=True)
        rows = await aside(rows_of, reading)

    away = {each.fragment for each in described.fragments if each.store == 2}
    assert set(reading.skipped) == away
    assert len(rows) == 2 * (16 - len(away))
    assert not away & {row["fragment"] for row in rows}


async def test_what_is_counted_is_what_went_out(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await bus.send("orders", plain(numbered(50, size=100)))
        await bus.rows(Place("orders"))
        await until(lambda: bus.door.calls.figures().streams == 0)
        figures = bus.door.calls.figures()

    assert figures.rows_out == 50
    assert figures.bytes_out > 50 * 100
    assert figures.refused == 0


async def test_a_large_body_that_is_no_text_comes_as_it_was(tmp_path: Path) -> None:
    body = bytes(range(256)) * 1000
    async with bulk_bus(tmp_path) as bus:
        await bus.send("orders", [PlainMessage(body=body)])
        [row] = await bus.rows(Place("orders"), columns=["body", "body_type"])

    assert row == {"body": body, "body_type": "data"}


def test_the_columns_are_those_that_spark_takes_without_a_change() -> None:
    assert arrow_schema(["enqueued_time"]).field(0).type == pa.timestamp("us", tz="UTC")
