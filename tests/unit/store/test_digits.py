"""Numbers read eight digits at a time are the numbers that were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.store.sql.scanner import Uneven
from bendybus.store.sqlite.digits import long_numbers, short_numbers


@given(st.lists(st.integers(0, 9 * 10**15 - 1), max_size=20))
def test_numbers_of_sixteen_digits_are_read(numbers: list[int]) -> None:
    digits = "".join(str(10**15 + each) for each in numbers).encode()
    assert long_numbers(digits or None, len(numbers)).tolist() == numbers


@given(st.lists(st.integers(0, 9 * 10**7 - 1), max_size=20))
def test_numbers_of_eight_digits_are_read(numbers: list[int]) -> None:
    digits = "".join(str(10**7 + each) for each in numbers).encode()
    assert short_numbers(digits or None, len(numbers)).tolist() == numbers


@pytest.mark.parametrize("digits", [None, b"1000000", b"100000001", b"1000000010000000"])
def test_another_count_of_digits_is_refused(digits: bytes | None) -> None:
    with pytest.raises(Uneven):
        short_numbers(digits, 1)
