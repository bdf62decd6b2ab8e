"""Writing through the bulk door: rows become messages once, and nothing is dropped in silence."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from bendybus.broker.access_keys import new_key
from bendybus.client import errors
from bendybus.client.bulk_values import Place, Published, StageLabel
from bendybus.model.access import AccessRule, Right
from bendybus.testing.local_broker import ROOT_RULE
from tests.flight.bulk_bus import PLACES, BareClient, BulkBus, aside, bodies_of, bulk_bus, until

LISTEN = AccessRule("listen", new_key(), frozenset({Right.LISTEN}))
SEND = AccessRule("send", new_key(), frozenset({Right.SEND}))
LABEL = StageLabel("query", 0, 0, 0)
SCHEMA = pa.schema(
    [("message_id", pa.string()), ("session_id", pa.string()), ("body", pa.binary())]
)


def rows(count: int, first: int = 0) -> pa.RecordBatch:
    """Make rows that can be messages everywhere."""
    return pa.RecordBatch.from_pylist(
        [
            {"message_id": f"m{n}", "session_id": f"s{n % 7}", "body": b"%d" % n}
            for n in range(first, first + count)
        ],
        schema=SCHEMA,
    )


async def stage(
    bus: BulkBus,
    place: Place,
    batches: Sequence[pa.RecordBatch],
    label: StageLabel = LABEL,
    **options: Any,
) -> Any:
    """Bring rows as a stage."""
    client = bus.client()
    return await aside(lambda: client.stage(place, batches[0].schema, batches, label, **options))


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize(
    ("place", "seen_at"),
    [
        (Place("orders"), Place("orders")),
        (Place("parts"), Place("parts")),
        (Place("visits"), Place("visits")),
        (Place("news"), Place("news", "all")),
        (Place("feed"), Place("feed", "all")),
        (Place("feed", "all"), Place("feed", "all")),
    ],
    ids=str,
)
async def test_a_stage_is_seen_when_it_is_published_and_once(
    tmp_path: Path, place: Place, seen_at: Place
) -> None:
    async with bulk_bus(tmp_path) as bus:
        labels = [StageLabel("query", 3, task, 0) for task in range(2)]
        staged = [
            await stage(bus, place, [rows(300, 1000 * at), rows(200, 1000 * at + 300)], label)
            for at, label in enumerate(labels)
        ]
        assert [each.rows for each in staged] == [500, 500]
        assert await bus.rows(seen_at) == []
        stages = [each.stage for each in staged]
        client = bus.client()
        first = await aside(client.publish, place, "query", 3, stages)
        again = await aside(client.publish, place, "query", 3, stages)
        found = await bus.rows(seen_at)

    assert first == Published(1000, already=False)
    assert again.already
    wanted = {f"m{1000 * at + n}" for at in range(2) for n in range(500)}
    assert len(found) == 1000
    assert {row["message_id"] for row in found} == wanted


@pytest.mark.parametrize("place", PLACES[:2], ids=str)
async def test_abandoned_rows_never_become_messages(tmp_path: Path, place: Place) -> None:
    async with bulk_bus(tmp_path) as bus:
        staged = await stage(bus, place, [rows(10)])
        client = bus.client()
        await aside(client.abandon, place, "query", 0, [staged.stage])
        with pytest.raises(errors.ClientError):
            await aside(client.publish, place, "query", 0, [staged.stage])
        assert await bus.rows(place) == []


async def test_a_row_that_cannot_be_a_message_fails_the_stage_and_is_named(
    tmp_path: Path,
) -> None:
    bad = pa.RecordBatch.from_pylist(
        [{"message_id": "good", "body": b"x"}, {"message_id": "m" * 129, "body": b"y"}],
        schema=SCHEMA,
    )
    async with bulk_bus(tmp_path) as bus:
        with pytest.raises(errors.ArgumentInvalid, match=r"Row 11 .*mmm"):
            await stage(bus, Place("orders"), [rows(10), bad])
        assert bus.door.calls.figures().streams == 0


async def test_a_row_that_cannot_be_a_message_is_rejected_and_told_if_so_asked(
    tmp_path: Path,
) -> None:
    bad = pa.RecordBatch.from_pylist([{"message_id": "m" * 129, "body": b"y"}], schema=SCHEMA)
    async with bulk_bus(tmp_path) as bus:
        staged = await stage(
            bus, Place("orders"), [rows(10), bad, rows(5, 20)], on_bad_row="reject"
        )
        await aside(bus.client().publish, Place("orders"), "query", 0, [staged.stage])
        found = await bus.rows(Place("orders"))

    assert staged.rows == 15
    assert [each.row for each in staged.rejected] == [10]
    assert len(found) == 15


@pytest.mark.parametrize(
    ("place", "schema", "text"),
    [
        ("orders", pa.schema([("bodi", pa.binary())]), "no column 'bodi'"),
        ("orders", pa.schema([("body", pa.float64())]), "'body' is double"),
        ("orders", pa.schema([("time_to_live", pa.string())]), "'time_to_live' is string"),
        ("visits", pa.schema([("body", pa.binary())]), "no column 'session_id'"),
        ("orders", pa.schema([]), "No column can be written"),
    ],
)
async def test_columns_that_cannot_be_messages_are_refused_before_any_row(
    tmp_path: Path, place: str, schema: pa.Schema, text: str
) -> None:
    async with bulk_bus(tmp_path) as bus:
        nothing = pa.RecordBatch.from_pylist([], schema=schema)
        with pytest.raises(errors.ArgumentInvalid) as refused:
            await stage(bus, Place(place), [nothing])
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "place",
    [Place("orders", sub_queue="deadletter"), Place("news", "all", "deadletter")],
    ids=str,
)
async def test_dead_letters_are_not_written(tmp_path: Path, place: Place) -> None:
    async with bulk_bus(tmp_path) as bus:
        with pytest.raises(errors.InvalidOperation, match="dead-letter queue"):
            await stage(bus, place, [rows(1)])


async def test_writing_needs_send(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path, rules=(ROOT_RULE, LISTEN, SEND)) as bus:
        place = Place("orders")
        with pytest.raises(errors.Unauthorized, match="'Send' claim"):
            await aside(lambda: bus.client(LISTEN).stage(place, SCHEMA, [rows(1)], LABEL))
        with pytest.raises(errors.Unauthorized, match="'Send' claim"):
            await aside(bus.client(LISTEN).publish, place, "query", 0, [])
        writer = bus.client(SEND)
        staged = await aside(lambda: writer.stage(place, SCHEMA, [rows(1)], LABEL))
        assert (await aside(writer.publish, place, "query", 0, [staged.stage])).rows == 1


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ({}, "'writer' must be a text"),
        ({"writer": "w"}, "'batch' must be a whole number"),
        ({"writer": "w", "batch": 1, "task": 0, "attempt": -1}, "'attempt' must be a whole"),
        ({"wrter": "w"}, "did you mean writer?"),
        (
            {"writer": "w", "batch": 1, "task": 0, "attempt": 0, "on_bad_row": "rejct"},
            "did you mean reject?",
        ),
    ],
)
async def test_a_command_that_means_nothing_is_refused(
    tmp_path: Path, command: dict[str, object], text: str
) -> None:
    async with bulk_bus(tmp_path) as bus:
        bare = BareClient(bus.endpoint)
        body = json.dumps({"entity": "orders", **command}).encode()
        with pytest.raises(flight.FlightServerError) as refused:
            await aside(bare.put, body, rows(1))
    assert text in str(refused.value)


async def test_a_writer_that_goes_away_leaves_nothing_and_gives_its_place_back(
    tmp_path: Path,
) -> None:
    async with bulk_bus(tmp_path) as bus:
        client = bus.client()

        def broken() -> Any:
            yield rows(100)
            raise RuntimeError("the task was killed")

        with pytest.raises(RuntimeError, match="the task was killed"):
            await aside(lambda: client.stage(Place("orders"), SCHEMA, broken(), LABEL))
        await until(lambda: bus.door.calls.figures().streams == 0)
        assert await bus.rows(Place("orders")) == []


async def test_what_is_counted_is_what_came_in(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await stage(bus, Place("parts"), [rows(250)])
        figures = bus.door.calls.figures()
    assert figures.rows_in == 250
    assert figures.bytes_in > 0


async def test_order_within_a_session_is_the_order_of_the_rows(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        staged = await stage(bus, Place("visits"), [rows(3000)])
        await aside(bus.client().publish, Place("visits"), "query", 0, [staged.stage])
        found = await bus.rows(Place("visits"), columns=["session_id", "body"])
    for session in {row["session_id"] for row in found}:
        numbers = [int(row["body"]) for row in found if row["session_id"] == session]
        assert numbers == sorted(numbers)
    assert len(bodies_of(found)) == 3000
