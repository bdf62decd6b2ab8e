"""Serial numbers, ranges of ids, assemblies."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.deliveries import Assembly, consecutive_ranges, take_range
from bendybus.amqp.serial import SERIAL_MASK, serial_distance

SERIALS = st.integers(0, SERIAL_MASK)


@pytest.mark.amqp("2.8.10")
@given(behind=SERIALS, distance=st.integers(-(2**31), 2**31 - 1))
def test_a_distance_is_right_across_the_wrap(behind: int, distance: int) -> None:
    assert serial_distance((behind + distance) & SERIAL_MASK, behind) == distance


@given(first=SERIALS, present=st.sets(st.integers(0, 40)), length=st.integers(1, 30))
def test_a_range_takes_what_is_there_in_order_across_the_wrap(
    first: int, present: set[int], length: int
) -> None:
    unsettled = {(first + step) & SERIAL_MASK: step for step in present}
    last = (first + length - 1) & SERIAL_MASK
    expected = sorted(step for step in present if step < length)
    assert take_range(unsettled, first, last) == expected
    assert sorted(unsettled.values()) == sorted(present - set(expected))


def test_a_huge_range_costs_no_more_than_what_is_there() -> None:
    unsettled = {7: "seven", 5: "five"}
    assert take_range(unsettled, 0, 2**31 - 1) == ["five", "seven"]


def test_a_range_that_runs_backwards_takes_nothing() -> None:
    assert take_range({5: "five"}, 6, 5) == []


@given(ids=st.sets(st.integers(0, 60)))
def test_ranges_cover_the_ids_exactly_and_as_few_as_can_be(ids: set[int]) -> None:
    ranges = list(consecutive_ranges(ids))
    covered = [number for first, last in ranges for number in range(first, last + 1)]
    assert covered == sorted(ids)
    assert all(second[0] > first[1] + 1 for first, second in pairwise(ranges))


def test_an_assembly_past_its_limit_counts_but_keeps_nothing() -> None:
    assembly = Assembly(1, b"tag", 0)
    for part in (b"abc", b"def"):
        assembly.add(part, 6)
    assert (bytes(assembly.payload), assembly.size) == (b"abcdef", 6)
    assembly.add(b"g", 6)
    assert (bytes(assembly.payload), assembly.size) == (b"", 7)
