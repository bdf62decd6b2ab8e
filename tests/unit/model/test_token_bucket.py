"""A bound on a rate."""

from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.token_bucket import TokenBucket


def test_a_burst_passes_and_what_is_more_has_to_wait() -> None:
    bucket = TokenBucket(per_second=10, burst=3)
    assert [bucket.take(1, 0) for _ in range(3)] == [0, 0, 0]
    assert bucket.take(1, 0) == 0.1
    assert bucket.take(1, 99) > 0
    assert bucket.take(1, 100) == 0


def test_a_rest_gives_back_no_more_than_the_burst() -> None:
    bucket = TokenBucket(per_second=10, burst=3)
    bucket.take(3, 0)
    assert [bucket.take(1, 60_000) == 0 for _ in range(4)] == [True, True, True, False]


def test_what_is_taken_at_once_is_paid_for_later() -> None:
    bucket = TokenBucket(per_second=10, burst=3)
    assert bucket.take(23, 0) == 0
    assert bucket.take(1, 1000) > 0
    assert bucket.take(1, 2100) == 0


def test_a_debt_grows_with_everyone_who_takes() -> None:
    bucket = TokenBucket(per_second=10, burst=1)
    assert [bucket.take_debt(1, 0) for _ in range(4)] == [0, 0.1, 0.2, 0.3]


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(per_second=1000, burst=1)
    bucket.take(1, 5000)
    assert bucket.take(1, 0) > 0
    assert bucket.take(1, 5000) > 0


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 20)), max_size=60))
def test_never_do_more_pass_than_burst_and_rate_allow(takes: list[tuple[int, int]]) -> None:
    bucket = TokenBucket(per_second=50, burst=10)
    now = passed = last = 0
    for wait, number in takes:
        now += wait
        if bucket.take(number, now) == 0:
            passed, last = passed + number, number
    # The last one may have been more than there was.
    assert passed - last <= 10 + now * 50 / 1000
