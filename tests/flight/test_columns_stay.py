"""Rows that come through the bulk door stay columns, and everybody sees the same messages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from bendybus.client.bulk_values import Place, Positions, StageLabel
from bendybus.flight.writing import Writing
from bendybus.store.sqlite.store import SqliteStore
from tests.flight.bulk_bus import BulkBus, aside, bodies_of, bulk_bus, rows_of
from tests.unit.broker.staging_verbs import held
from tests.unit.columns.row_batches import PARTS

pytestmark = pytest.mark.spec("R9.3")
BOTH: Final = pytest.mark.parametrize("name", ["orders", "parts"])
LABEL: Final = StageLabel("query", 0, 0, 0)
PROPERTIES: Final = pa.map_(pa.string(), pa.string())


def keyed(count: int, first: int = 0) -> pa.RecordBatch:
    """Make rows of which a queue need not know more than their key."""
    numbers = range(first, first + count)
    return pa.record_batch(
        {
            "message_id": [f"m{n}" for n in numbers],
            "partition_key": [f"k{n % 40}" for n in numbers],
            "subject": ["alike"] * count,
            "correlation_id": [f"c{n}" if n % 3 else None for n in numbers],
            "time_to_live": pa.array([3_600_000] * count, pa.int64()),
            "body": pa.array([b"%d" % n for n in numbers], pa.binary()),
        }
    )


async def write(
    bus: BulkBus,
    name: str,
    batches: Sequence[pa.RecordBatch],
    label: StageLabel = LABEL,
    **options: Any,
) -> Any:
    """Write rows as one batch; return what staging answered."""
    client, place = bus.client(), Place(name)
    staged = await aside(lambda: client.stage(place, batches[0].schema, batches, label, **options))
    await aside(client.publish, place, "query", label.batch, [staged.stage])
    return staged


async def packs(bus: BulkBus) -> int:
    """Count the packs in all stores."""
    count = 0
    for store in bus.broker.stores:
        assert isinstance(store, SqliteStore)
        [(found,)] = await store.look(lambda db: db.execute("SELECT count(*) FROM pack").fetchall())
        count += found
    return count


@BOTH
async def test_columns_and_rows_made_of_them_are_read_alike(tmp_path: Path, name: str) -> None:
    async with bulk_bus(tmp_path) as bus:
        await write(bus, name, [keyed(3000), keyed(2000, 3000)])
        assert await packs(bus) > 0
        columns = await bus.rows(Place(name))
        some = await bus.rows(Place(name), columns=["body", "sequence_number"])
        of_key = await bus.rows(Place(name), filters=[("partition_key", "=", "k7")])
        beyond = await bus.rows(Place(name), batch_rows=700, columns=["message_id"])
        await held(bus.broker.queue(name))
        assert await packs(bus) == 0
        rows = await bus.rows(Place(name))

    assert len(columns) == 5000
    assert columns == rows
    assert bodies_of(some) == bodies_of(rows)
    assert of_key == [row for row in rows if row["partition_key"] == "k7"]
    assert [row["message_id"] for row in beyond] == [row["message_id"] for row in rows]
    assert {row["body_type"] for row in rows} == {"data"}
    assert {row["time_to_live"] for row in rows} == {3_600_000}


async def test_rows_of_both_kinds_keep_their_order(tmp_path: Path) -> None:
    batches = []
    for first in range(0, 60, 10):
        batch = keyed(10, first)
        entries = [[("a", "b")] if first % 20 else [] for _ in range(10)]
        batches.append(batch.append_column("application_properties", pa.array(entries, PROPERTIES)))
    async with bulk_bus(tmp_path) as bus:
        await write(bus, "orders", batches)
        assert await packs(bus) == 3
        found = await held(bus.broker.queue("orders"))
        rows = await bus.rows(Place("orders"))
    assert len(found) == 60
    assert bodies_of(rows) == [b"%d" % n for n in range(60)]


@BOTH
async def test_a_reader_takes_columns_as_they_are(tmp_path: Path, name: str) -> None:
    place = Place(name)
    async with bulk_bus(tmp_path) as bus:
        await write(bus, name, [keyed(2000)])
        before = await bus.rows(place)
        client = bus.client()
        token = (await aside(client.open_reader, place, "capture")).token
        reserved = await aside(client.reserve, place, "capture", token, {})
        assert reserved.messages == 2000
        parts = [Positions(fragment, 0, until) for fragment, until in reserved.end.items()]
        once, twice = [
            await aside(lambda: rows_of(client.read_reserved(place, "capture", token, parts)))
            for _ in range(2)
        ]
        assert await bus.rows(place, states=["reserved"]) == once
        assert await bus.rows(place, states=["active"]) == []
        await aside(client.commit, place, "capture", token, reserved.end)
        assert await bus.rows(place) == []
        assert await packs(bus) == 0
    assert once == twice == [{**row, "state": "reserved"} for row in before]


@BOTH
@pytest.mark.parametrize("wanted", [1, 500, 1234, 2999])
async def test_a_reader_gets_as_many_as_it_wants_and_one_pack_is_cut_at_most(
    tmp_path: Path, name: str, wanted: int
) -> None:
    place = Place(name)
    async with bulk_bus(tmp_path) as bus:
        for number in range(3):
            label = StageLabel("query", number, 0, number)
            await write(bus, name, [keyed(1000, number * 1000)], label)
        before = await packs(bus)
        client = bus.client()
        token = (await aside(client.open_reader, place, "capture")).token
        reserved = await aside(
            lambda: client.reserve(place, "capture", token, {}, messages_max=wanted)
        )
        assert reserved.messages == wanted
        assert len(await bus.rows(place, states=["reserved"])) == wanted
        assert before <= await packs(bus) <= before + 1


async def test_fragments_with_more_give_what_others_lack(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path) as bus:
        for number in range(4):
            # One key, so one fragment.
            rows = pa.record_batch({"body": ["x"] * 5000, "partition_key": ["one"] * 5000})
            await write(bus, "parts", [rows], StageLabel("query", number, 0, number))
        client = bus.client()
        token = (await aside(client.open_reader, place, "capture")).token
        reserved = await aside(
            lambda: client.reserve(place, "capture", token, {}, messages_max=18_000)
        )
    assert reserved.messages == 18_000


@pytest.mark.parametrize(("batch_rows", "expected"), [(None, [3000]), (2500, [2000, 1000])])
async def test_reservations_of_a_fragment_are_read_together(
    tmp_path: Path, batch_rows: int | None, expected: list[int]
) -> None:
    place = Place("orders")
    async with bulk_bus(tmp_path) as bus:
        for number in range(3):
            label = StageLabel("query", number, 0, number)
            await write(bus, "orders", [keyed(1000, number * 1000)], label)
        client = bus.client()
        token = (await aside(client.open_reader, place, "capture")).token
        reserved = await aside(client.reserve, place, "capture", token, {})
        assert reserved.end == {0: 3}

        def read() -> list[pa.RecordBatch]:
            parts = [Positions(0, 0, 3)]
            return list(client.read_reserved(place, "capture", token, parts, batch_rows=batch_rows))

        batches = await aside(read)
    assert [batch.num_rows for batch in batches] == expected
    assert bodies_of(rows_of(batches)) == [b"%d" % n for n in range(3000)]


async def test_rows_that_cannot_be_messages_are_left_out_of_columns(tmp_path: Path) -> None:
    batch = pa.record_batch({"body": ["x", "y" * 300_000, "z"], "message_id": ["1", "2", "3"]})
    async with bulk_bus(tmp_path) as bus:
        staged = await write(bus, "orders", [batch], on_bad_row="reject")
        assert await packs(bus) == 1
        assert bodies_of(await bus.rows(Place("orders"))) == [b"x", b"z"]
    assert [each.row for each in staged.rejected] == [1]


def test_few_rows_of_a_fragment_keep_no_memory_of_all_others() -> None:
    no_stage: Any = None  # nothing is brought into it here
    writing = Writing(no_stage, PARTS)
    before = pa.total_allocated_bytes()
    for _ in range(40):
        keys = [*["hot"] * 1000, "rare"]
        batch = pa.record_batch({"partition_key": keys, "body": [b"." * 1000] * 1001})
        writing.packed(batch, rejects=False)
        del batch
    assert pa.total_allocated_bytes() - before < 5_000_000
    [rest] = [packed for _, packed in writing.rest() if len(packed) == 40]
    assert rest.content_bytes > 40_000
