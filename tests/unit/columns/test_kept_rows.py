"""Rows that stay columns are the same messages as those that do not."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.columns.encoding import check_rows
from bendybus.columns.kept_rows import (
    GatheredRows,
    SizedRows,
    kept,
    places_of_keys,
    read_rows,
    unpacked,
)
from bendybus.columns.key_fragments import fragments_of
from bendybus.columns.target import Target
from bendybus.model.packed_messages import PackedRows
from bendybus.model.partitioning import fragment_for
from tests.unit.columns.row_batches import (
    TARGET,
    batch_of,
    encode_rows,
    keys,
    new_id,
    row_values,
    some_texts,
)

# What a queue must know of each message.
LEFT_OUT = ("session_id", "scheduled_enqueue_time", "application_properties")


def plain_rows(count_max: int = 8) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Make rows that may stay columns: with ids, and all living equally long."""

    def plain(
        given: tuple[list[dict[str, Any]], int | None],
    ) -> list[dict[str, Any]]:
        rows, life = given
        has_keys = rows[0]["partition_key"] is not None
        return [
            {
                **{name: value for name, value in row.items() if name not in LEFT_OUT},
                "message_id": row["message_id"] or new_id(),
                "partition_key": (row["partition_key"] or "") if has_keys else None,
                "time_to_live": life,
            }
            for row in rows
        ]

    lives = st.none() | st.integers(0, 2**33)
    return st.tuples(st.lists(row_values(), min_size=1, max_size=count_max), lives).map(plain)


def packed(rows: list[dict[str, Any]], *, count_max: int, bytes_max: int) -> list[PackedRows]:
    """Gather rows one batch after the other, each of two."""
    gathered = GatheredRows(count_max, bytes_max)
    found: list[PackedRows] = []
    for at in range(0, len(rows), 2):
        checked = check_rows(batch_of(rows[at : at + 2]), TARGET)
        columns = kept(checked.rows, TARGET)
        assert columns is not None
        found += gathered.add(0, SizedRows(columns, checked.pieces.sizes))
    return [*found, *(each for _, each in gathered.everything())]


@given(plain_rows(), st.integers(1, 5), st.sampled_from([1, 700, 100_000]))
def test_messages_are_those_that_would_have_been_made_at_once(
    rows: list[dict[str, Any]], count_max: int, bytes_max: int
) -> None:
    [wanted] = encode_rows(batch_of(rows), TARGET).groups.values()
    parts = packed(rows, count_max=count_max, bytes_max=bytes_max)
    messages = [unpacked(part) for part in parts]
    assert [each for part in messages for each in part] == list(wanted)
    for part, made in zip(parts, messages, strict=True):
        assert len(part) == len(made) <= count_max
        assert part.content_bytes == made.content_bytes
        assert part.content_bytes <= bytes_max or len(part) == 1
        assert made.is_alike
        assert made.times_to_live_ms == part.time_to_live_ms


@pytest.mark.parametrize(
    "row",
    [
        {"session_id": "s"},
        {"scheduled_enqueue_time": 5},
        {"application_properties": [("a", {"type": "string", "value": "b"})]},
        {"body_type": "text"},
    ],
    ids=lambda row: next(iter(row)),
)
def test_messages_that_a_queue_must_know_more_of_are_made_at_once(row: dict[str, Any]) -> None:
    rows = check_rows(batch_of([{"body": b"x", **row}]), TARGET).rows
    assert kept(rows, TARGET) is None
    assert kept(check_rows(batch_of([{"body": b"x"}]), TARGET).rows, TARGET) is not None


@pytest.mark.parametrize("properties", [None, []], ids=["none", "empty"])
@pytest.mark.parametrize("body_type", [None, "data"])
def test_columns_that_say_nothing_are_no_reason_to_make_contents(
    properties: list[object] | None, body_type: str | None
) -> None:
    row: dict[str, Any] = {
        "message_id": "1",
        "application_properties": properties,
        "body_type": body_type,
    }
    rows = [{**row, "body": b"x"}, {**row, "body": None}]
    [part] = packed(rows, count_max=9, bytes_max=999)
    [wanted] = encode_rows(batch_of(rows), TARGET).groups.values()
    plain = [{"message_id": "1", "body": each["body"]} for each in rows]
    [without] = encode_rows(batch_of(plain, ("message_id", "body")), TARGET).groups.values()
    assert list(unpacked(part)) == list(wanted) == list(without)


@pytest.mark.parametrize(
    "target",
    [
        TARGET._replace(is_topic=True),
        TARGET._replace(has_duplicate_detection=True),
        TARGET._replace(requires_session=True),
    ],
    ids=["topic", "duplicates", "sessions"],
)
def test_entities_that_look_at_each_message_get_contents(target: Target) -> None:
    assert kept(check_rows(batch_of([{"body": b"x"}]), TARGET).rows, target) is None


def test_messages_of_which_only_some_have_a_key_are_made_at_once() -> None:
    rows = [{"partition_key": each} for each in ("a", None)]
    assert kept(check_rows(batch_of(rows), TARGET).rows, TARGET) is None


def test_messages_that_do_not_live_equally_long_are_made_at_once() -> None:
    for lives in ([1, 2], [1, None]):
        rows = [{"time_to_live": each} for each in lives]
        assert kept(check_rows(batch_of(rows), TARGET).rows, TARGET) is None


def test_a_text_that_is_not_utf_8_is_a_matter_of_contents() -> None:
    broken = pa.array([b"\xff"]).view(pa.string())
    batch = pa.record_batch([broken, pa.array([b"x"])], names=["subject", "body"])
    assert kept(check_rows(batch, TARGET).rows, TARGET) is None


def test_rows_that_live_another_time_begin_a_chunk_of_their_own() -> None:
    gathered = GatheredRows(100, 100_000)
    found: list[PackedRows] = []
    for life in (None, 1, 1, 2):
        checked = check_rows(batch_of([{"time_to_live": life, "body": b"x"}]), TARGET)
        columns = kept(checked.rows, TARGET)
        assert columns is not None
        found += gathered.add(3, SizedRows(columns, checked.pieces.sizes))
    rest = list(gathered.everything())
    assert [fragment for fragment, _ in rest] == [3]
    found += [each for _, each in rest]
    assert [(each.time_to_live_ms, len(each)) for each in found] == [(None, 1), (1, 2), (2, 1)]


def test_a_text_that_all_rows_have_is_said_once() -> None:
    alike = packed([{"body": b"x", "subject": "s" * 100}] * 50, count_max=99, bytes_max=1 << 20)
    other = packed(
        [{"body": b"x", "subject": f"{at:0100}"} for at in range(50)],
        count_max=99,
        bytes_max=1 << 20,
    )
    assert len(alike[0].beside) + 50 * 100 <= len(other[0].beside) + 200
    assert read_rows(alike[0].beside).column("subject").to_pylist() == ["s" * 100] * 50


def test_rows_are_found_by_their_key() -> None:
    rows = [{"partition_key": key} for key in ("a", "", "b", "a")]
    [part] = packed(rows, count_max=99, bytes_max=1 << 20)
    assert places_of_keys(part.beside, ["a", "c"]).tolist() == [0, 3]
    [keyless] = packed([{"body": b"x"}], count_max=99, bytes_max=1 << 20)
    assert places_of_keys(keyless.beside, ["a"]).tolist() == []


@given(st.lists(keys | some_texts, max_size=20), st.integers(1, 16), st.integers(0, 3))
def test_keys_belong_to_the_fragments_that_each_alone_would(
    texts: list[str | None], count: int, skipped: int
) -> None:
    column = pa.array(texts, pa.string())[skipped:]
    wanted = [count if key is None else fragment_for(key, count) for key in texts[skipped:]]
    assert fragments_of(column, count).tolist() == wanted
