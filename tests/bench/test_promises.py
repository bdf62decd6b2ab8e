"""A promise is kept, broken or not measured, and each of the three shows."""

import pytest

from bench.promises import CONVENTIONAL, PARTITIONED, PEERS, PROMISES, judge
from bench.readings import Figure, Reading, Readings, Subject
from bench.rounds import SCENARIOS
from bench.scenarios import NO_BODY, SMALL_BODY_BYTES


def readings_of(*values: tuple[Figure, str, float], body_bytes: int = SMALL_BODY_BYTES) -> Readings:
    readings = Readings()
    readings.add(
        Reading(Subject(figure, target, body_bytes), value) for figure, target, value in values
    )
    return readings


def verdict(name: str, readings: Readings) -> tuple[float | None, bool]:
    [found] = [found for found in judge(readings, SCENARIOS) if found.promise.name == name]
    return found.value, found.is_kept()


@pytest.mark.parametrize(("ours", "kept"), [(150.0, True), (149.0, False)])
def test_sends_are_held_against_the_better_of_the_peers_queues(ours: float, kept: bool) -> None:
    classic, quorum = PEERS
    readings = readings_of(
        (Figure.SEND, classic, 10.0), (Figure.SEND, quorum, 100.0), (Figure.SEND, PARTITIONED, ours)
    )
    assert verdict("send / better peer, 200 B", readings) == (ours / 100, kept)


@pytest.mark.parametrize(("ours", "kept"), [(80.0, True), (79.0, False)])
def test_the_partitioned_queue_is_held_against_our_conventional_one(
    ours: float, kept: bool
) -> None:
    readings = readings_of((Figure.SEND, CONVENTIONAL, 100.0), (Figure.SEND, PARTITIONED, ours))
    assert verdict("send, partitioned / conventional, 200 B", readings) == (ours / 100, kept)


@pytest.mark.parametrize(("ours", "kept"), [(2.0, True), (2.1, False)])
def test_a_wait_longer_than_the_peers_breaks_the_promise(ours: float, kept: bool) -> None:
    _, quorum = PEERS
    readings = readings_of(
        (Figure.ACKNOWLEDGE_P99, quorum, 2.0), (Figure.ACKNOWLEDGE_P99, PARTITIONED, ours)
    )
    assert verdict("acknowledgement p99 / peer", readings) == (ours / 2, kept)


def test_one_message_back_in_the_queue_breaks_the_promise() -> None:
    readings = readings_of((Figure.BACK_AFTER_RECEIVE, PARTITIONED, 1.0))
    assert verdict("messages back after receive, 200 B", readings) == (1.0, False)


def test_the_backlogs_memory_is_what_it_adds_to_the_empty_broker() -> None:
    readings = readings_of(
        (Figure.RESIDENT_EMPTY, PARTITIONED, 50.0), (Figure.RESIDENT_BACKLOG, PARTITIONED, 111.0)
    )
    assert verdict("memory of the backlog, MB", readings) == (61.0, False)


def test_a_connections_memory_has_to_do_with_no_body() -> None:
    readings = readings_of((Figure.CONNECTION_RESIDENT, PARTITIONED, 60.0), body_bytes=NO_BODY)
    assert verdict("memory per idle connection, KB", readings) == (60.0, True)


def test_what_was_not_measured_is_not_kept() -> None:
    verdicts = judge(Readings(), SCENARIOS)
    assert len(verdicts) == len(PROMISES)
    assert not any(found.is_kept() for found in verdicts)


def test_promises_of_scenarios_that_did_not_run_are_not_judged() -> None:
    assert {found.promise.scenario for found in judge(Readings(), ["idle"])} == {"idle"}


def test_a_figure_is_the_median_of_its_rounds() -> None:
    readings = readings_of(*[(Figure.SEND, PARTITIONED, value) for value in (90.0, 10.0, 20.0)])
    assert readings.median(Figure.SEND, PARTITIONED, SMALL_BODY_BYTES) == 20.0
