"""Workers that end are started again, and not too often."""

import pytest

from bendybus.assemble.restarts import (
    CALM_SECONDS,
    PAUSE_SECONDS_MAX,
    PAUSE_SECONDS_MIN,
    Restarts,
)


def test_a_worker_that_ended_is_due_after_a_short_pause() -> None:
    restarts = Restarts(2)
    restarts.note_start(1, 100.0)
    assert restarts.seconds_left(100.0) is None
    assert restarts.note_end(1, 101.0) == PAUSE_SECONDS_MIN
    assert restarts.due(101.0) == []
    assert restarts.seconds_left(101.0) == pytest.approx(PAUSE_SECONDS_MIN)
    assert restarts.due(101.0 + PAUSE_SECONDS_MIN) == [1]
    assert restarts.seconds_left(200.0) == 0.0
    restarts.note_start(1, 200.0)
    assert restarts.due(300.0) == []


def test_the_pauses_of_one_that_keeps_ending_grow_up_to_a_bound() -> None:
    restarts = Restarts(1)
    pauses = []
    for _ in range(12):
        restarts.note_start(0, 0.0)
        pauses.append(restarts.note_end(0, 1.0))
    assert pauses[:3] == [PAUSE_SECONDS_MIN, 2 * PAUSE_SECONDS_MIN, 4 * PAUSE_SECONDS_MIN]
    assert pauses[-1] == PAUSE_SECONDS_MAX


def test_one_that_has_lived_for_long_is_started_at_once() -> None:
    restarts = Restarts(1)
    for _ in range(5):
        restarts.note_start(0, 0.0)
        restarts.note_end(0, 1.0)
    restarts.note_start(0, 0.0)
    assert restarts.note_end(0, CALM_SECONDS) == PAUSE_SECONDS_MIN
