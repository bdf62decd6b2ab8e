"""Heartbeats and silence, in simulated milliseconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.idle import IdleTimer


@pytest.mark.amqp("2.4.5")
def test_a_heartbeat_is_due_after_half_the_peers_timeout_without_output() -> None:
    timer = IdleTimer(0, peer_timeout_ms=1000)
    assert timer.tick(0) == (False, False)
    assert timer.tick(499) == (False, False)
    assert timer.tick(500) == (True, False)


@pytest.mark.amqp("2.4.5")
def test_the_peer_is_gone_after_twice_our_timeout_without_input() -> None:
    timer = IdleTimer(1000)
    timer.tick(0)
    assert timer.tick(1999) == (False, False)
    assert timer.tick(2000) == (False, True)


def test_input_counts_as_received_at_the_next_tick() -> None:
    timer = IdleTimer(1000)
    timer.tick(0)
    timer.has_received = True
    assert timer.tick(1900) == (False, False)
    assert timer.tick(3899) == (False, False)
    assert timer.tick(3900) == (False, True)


def test_output_counts_as_sent_at_the_tick_before_it() -> None:
    timer = IdleTimer(0, peer_timeout_ms=1000)
    timer.tick(0)
    timer.has_sent = True
    assert timer.tick(250) == (False, False)
    assert timer.tick(500) == (True, False)


@given(
    peer_timeout_ms=st.integers(100, 100_000),
    lateness=st.lists(st.integers(0, 5), min_size=5, max_size=50),
    sends=st.lists(st.booleans(), min_size=50, max_size=50),
)
def test_the_peer_never_waits_for_its_whole_timeout(
    peer_timeout_ms: int, lateness: list[int], sends: list[bool]
) -> None:
    timer = IdleTimer(0, peer_timeout_ms=peer_timeout_ms)
    now, sent = 0, 0
    timer.tick(now)
    for late, sends_something in zip(lateness, sends, strict=False):
        if sends_something:
            timer.has_sent, sent = True, now
        wait = timer.next_tick_ms(now)
        assert wait is not None
        now += wait + late
        assert now - sent < peer_timeout_ms
        if timer.tick(now)[0]:
            timer.has_sent, sent = True, now


def test_without_timeouts_no_tick_is_due() -> None:
    timer = IdleTimer(0)
    assert timer.next_tick_ms(5) is None
    assert timer.tick(10**9) == (False, False)
    assert timer.tick(10**12) == (False, False)


def test_the_next_tick_counts_from_the_last_one() -> None:
    timer = IdleTimer(1000, peer_timeout_ms=400)
    assert timer.next_tick_ms(7) == 100
    timer.tick(7)
    assert timer.next_tick_ms(57) == 50
    assert timer.next_tick_ms(10_000) == 0
    assert IdleTimer(1000).next_tick_ms(0) == 500
