"""Filters of a read: what they let through is what a look at every row would."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.client.bulk_values import Place
from bendybus.columns.arrow_types import arrow_schema
from bendybus.content.plain_message import PlainMessage
from bendybus.flight.filtering import sieve
from bendybus.flight.ticket import Filter
from bendybus.model.ids import Instant
from tests.flight.bulk_bus import BulkBus, bulk_bus

SECONDS = 10
WANTED = ["sequence_number", "enqueued_time", "session_id", "partition_key", "subject"]


async def filled(bus: BulkBus, entity: str) -> None:
    """Send messages at different times, of several sessions, keys and subjects."""
    for number in range(60):
        session = f"s{number % 5}" if entity == "visits" else None
        key = f"k{number % 7}" if session is None and number % 2 else None
        subject = None if number % 3 == 0 else f"subject {number % 4}"
        message = PlainMessage(
            body=b"%d" % number, session_id=session, partition_key=key, label=subject
        )
        await bus.send(entity, [message])
        bus.clock.advance(SECONDS)


@pytest.mark.parametrize("entity", ["orders", "parts", "visits"])
async def test_a_filter_lets_through_what_a_look_at_every_row_would(
    tmp_path: Path, entity: str
) -> None:
    async with bulk_bus(tmp_path) as bus:
        began = datetime.fromtimestamp(bus.clock.now() / 1000, UTC)
        await filled(bus, entity)
        rows = await bus.rows(Place(entity), columns=WANTED)
        assert len(rows) == 60
        middle = datetime.fromtimestamp(began.timestamp() + 20 * SECONDS, UTC)
        number = rows[7]["sequence_number"]
        cases: list[tuple[list[list[object]], Callable[[dict[str, Any]], bool]]] = [
            ([["sequence_number", "=", number]], lambda row: row["sequence_number"] == number),
            ([["sequence_number", ">", number]], lambda row: row["sequence_number"] > number),
            ([["sequence_number", "<=", number]], lambda row: row["sequence_number"] <= number),
            ([["sequence_number", "in", [number]]], lambda row: row["sequence_number"] == number),
            (
                [["enqueued_time", ">=", middle.isoformat()]],
                lambda row: row["enqueued_time"] >= middle,
            ),
            (
                [["enqueued_time", "<", round(middle.timestamp() * 1000)]],
                lambda row: row["enqueued_time"] < middle,
            ),
            ([["session_id", "=", "s3"]], lambda row: row["session_id"] == "s3"),
            ([["session_id", "in", ["s1", "s2"]]], lambda row: row["session_id"] in {"s1", "s2"}),
            ([["partition_key", "=", "k3"]], lambda row: row["partition_key"] == "k3"),
            # Where there are sessions, their ids are the keys of a partitioned entity.
            ([["partition_key", "=", "s3"]], lambda row: row["partition_key"] == "s3"),
            ([["partition_key", ">", "k3"]], lambda row: (row["partition_key"] or "") > "k3"),
            ([["subject", "=", "subject 2"]], lambda row: row["subject"] == "subject 2"),
            ([["subject", "in", ["subject 1"]]], lambda row: row["subject"] == "subject 1"),
            (
                [["subject", ">=", "subject 2"], ["enqueued_time", ">", middle.isoformat()]],
                lambda row: (row["subject"] or "") >= "subject 2" and row["enqueued_time"] > middle,
            ),
            ([["session_id", "=", "s1"], ["session_id", "=", "s2"]], lambda _: False),
        ]
        for filters, is_meant in cases:
            found = await bus.rows(Place(entity), columns=WANTED, filters=filters)
            assert found == [row for row in rows if is_meant(row)], filters


async def test_a_column_that_is_only_asked_about_is_not_sent(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, "orders")
        wanted = [["subject", "=", "subject 2"]]
        rows = await bus.rows(Place("orders"), columns=["body"], filters=wanted)

    assert rows
    assert all(set(row) == {"body"} for row in rows)


async def test_only_the_states_asked_for_are_read(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        later = Instant(bus.clock.now() + 3_600_000)
        await bus.send("orders", [PlainMessage(body=b"now")])
        await bus.send("orders", [PlainMessage(body=b"later", scheduled_at=later)])
        found = {
            states: [row["body"] for row in await bus.rows(Place("orders"), states=list(states))]
            for states in (("active",), ("scheduled",), ("deferred",), ("active", "scheduled"))
        }

    assert found == {
        ("active",): [b"now"],
        ("scheduled",): [b"later"],
        ("deferred",): [],
        ("active", "scheduled"): [b"now", b"later"],
    }


NUMBERS = st.integers(0, 5)
FILTERS = st.lists(
    st.builds(
        lambda operator, values: Filter(
            "sequence_number", operator, tuple(values if operator == "in" else values[:1])
        ),
        st.sampled_from(["=", "<", "<=", ">", ">=", "in"]),
        st.lists(NUMBERS, min_size=1, max_size=3),
    ),
    max_size=3,
)


@given(FILTERS)
def test_bounds_and_what_is_asked_afterwards_come_to_the_same_as_all_filters(
    filters: list[Filter],
) -> None:
    names = ("sequence_number",)
    made = sieve(filters)
    within = range(max(made.sequences.first, 0), min(made.sequences.until, 10))
    batch = pa.RecordBatch.from_pylist(
        [{"sequence_number": number} for number in within], schema=arrow_schema(names)
    )
    found = made.sifted(batch, names).column("sequence_number").to_pylist()

    compared: dict[str, Callable[[int, Any], bool]] = {
        "=": lambda number, values: number == values[0],
        "<": lambda number, values: number < values[0],
        "<=": lambda number, values: number <= values[0],
        ">": lambda number, values: number > values[0],
        ">=": lambda number, values: number >= values[0],
        "in": lambda number, values: number in values,
    }
    assert found == [
        number
        for number in range(10)
        if all(compared[each.operator](number, each.values) for each in filters)
    ]
