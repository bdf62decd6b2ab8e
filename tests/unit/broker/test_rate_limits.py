"""Bounds on requests per second, as HTTP asks for them."""

import pytest

from bendybus.broker import rate_limits
from bendybus.broker.rate_limits import RateLimits, Rates
from bendybus.model.errors import Throttled
from bendybus.testing.clock import ManualClock


def passed(limits: RateLimits, connection: object, count: int) -> int:
    """Count how many of so many requests are let through."""
    number = 0
    for _ in range(count):
        try:
            limits.check(connection)
        except Throttled:
            continue
        number += 1
    return number


def test_without_bounds_everything_passes_and_nothing_is_remembered() -> None:
    limits = RateLimits(Rates(), ManualClock())
    assert limits.new_connection() is None
    assert passed(limits, "a", 1000) == 1000
    assert not limits._connections


def test_each_connection_has_its_own_bound() -> None:
    clock = ManualClock()
    limits = RateLimits(Rates(connection=3), clock)
    assert [passed(limits, each, 5) for each in ("a", "b")] == [3, 3]
    clock.advance(1)
    assert passed(limits, "a", 5) == 3


def test_what_one_connection_asks_too_much_is_not_taken_from_all() -> None:
    limits = RateLimits(Rates(namespace=4, connection=2), ManualClock())
    assert passed(limits, "greedy", 100) == 2
    assert passed(limits, "modest", 2) == 2


def test_only_so_many_connections_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "CONNECTIONS_MAX", 3)
    limits = RateLimits(Rates(connection=10), ManualClock())
    for connection in "abcad":
        limits.check(connection)
    assert list(limits._connections) == ["c", "a", "d"]


def test_a_refusal_says_when_to_come_back() -> None:
    limits = RateLimits(Rates(namespace=1), ManualClock())
    limits.check("a")
    with pytest.raises(Throttled, match="try again in 1 seconds") as refused:
        limits.check("a")
    assert refused.value.retry_after_seconds == 1
