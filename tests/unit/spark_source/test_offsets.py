"""Offsets as Spark keeps them."""

import json
from collections.abc import Callable

import pytest

from pyspark_servicebus.offsets import (
    BrowsedOffset,
    CheckpointForeign,
    ConsumedOffset,
    read_any_consumed,
    read_browsed,
    read_consumed,
    read_sequences,
)

CONSUMED = ConsumedOffset("orders", "capture", "t1", {10: 4, 2: 7})
BROWSED = BrowsedOffset("orders", {10: 4, 2: 7})


def test_fragments_stand_in_the_order_of_their_numbers() -> None:
    assert json.dumps(CONSUMED.to_json()) == (
        '{"entity": "orders", "reader": "capture", "token": "t1", "2": 7, "10": 4}'
    )
    assert list(BROWSED.to_json()) == ["entity", "2", "10"]


def test_an_offset_is_read_as_it_was_written() -> None:
    assert read_consumed(CONSUMED.to_json(), entity="Orders", reader="capture") == ConsumedOffset(
        "Orders", "capture", "t1", {2: 7, 10: 4}
    )
    assert read_browsed(BROWSED.to_json(), entity="orders") == BROWSED


@pytest.mark.parametrize("as_text", [json.dumps, str], ids=["newest", "4.1"])
def test_an_offset_is_read_as_a_progress_has_it(as_text: Callable[[object], str]) -> None:
    assert read_any_consumed(as_text(CONSUMED.to_json())) == CONSUMED


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (ConsumedOffset("bills", "capture", "t1", {}), "for 'bills', and this query reads 'orders"),
        (ConsumedOffset("orders", "other", "t1", {}), "reader 'other', and this query reads"),
        (BROWSED, "mode=browse, and this query reads mode=consume"),
    ],
)
def test_a_checkpoint_of_another_stream_is_refused(
    offset: ConsumedOffset | BrowsedOffset, why: str
) -> None:
    with pytest.raises(CheckpointForeign, match=why):
        read_consumed(offset.to_json(), entity="orders", reader="capture")


def test_a_consumers_checkpoint_is_refused_by_one_who_browses() -> None:
    with pytest.raises(CheckpointForeign, match="reader 'capture'"):
        read_browsed(CONSUMED.to_json(), entity="orders")


@pytest.mark.parametrize("as_text", [json.dumps, str], ids=["newest", "4.1"])
@pytest.mark.parametrize("value", [None, [], {"entity": "orders", "0": 1}, {"x": 1}])
def test_what_is_no_consumers_offset_is_not_taken_for_one(
    value: object, as_text: Callable[[object], str]
) -> None:
    assert read_any_consumed(as_text(value)) is None


@pytest.mark.parametrize("text", ["", "{", "__import__('os')"])
def test_what_is_no_offset_at_all_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no offset of a query's progress"):
        read_any_consumed(text)


@pytest.mark.parametrize(
    "text", ["{", "{}", '{"a": 1}', '{"0": "1"}', '{"0": -1}', '{"0": true}', '{"100000": 1}']
)
def test_sequence_numbers_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|such as"):
        read_sequences(text)
