"""The shape of a sequence number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.ids import COUNTER_MASK, fragment_of, sequence_number

FRAGMENTS = st.integers(0, 2**15 - 1)
COUNTERS = st.integers(1, COUNTER_MASK)


@pytest.mark.spec("R2.6")
@given(FRAGMENTS, COUNTERS)
def test_the_fragment_is_the_top_16_bits_of_64(fragment: int, counter: int) -> None:
    sequence = sequence_number(fragment, counter)

    assert fragment_of(sequence) == fragment == sequence >> 48
    assert sequence & COUNTER_MASK == counter
    assert 0 < sequence < 2**63


@pytest.mark.spec("R2.6")
def test_a_conventional_entity_counts_one_two_three() -> None:
    assert [sequence_number(0, counter) for counter in (1, 2, 3)] == [1, 2, 3]


@pytest.mark.spec("R3.5")
@given(FRAGMENTS, COUNTERS, FRAGMENTS, COUNTERS)
def test_numeric_order_walks_fragment_by_fragment(
    fragment: int, counter: int, other: int, other_counter: int
) -> None:
    numbers = sequence_number(fragment, counter), sequence_number(other, other_counter)

    assert (numbers[0] < numbers[1]) is ((fragment, counter) < (other, other_counter))
