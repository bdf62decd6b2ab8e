"""What is promised of growing past one process, held against readings; the small size runs."""

from pathlib import Path

import pytest

from bench.clients import Clients
from bench.features.stage import Stage
from bench.promises import judge
from bench.readings import Figure, Reading, Readings, Subject
from bench.scale import front_ends, postgres, vacuum
from bench.scale.promises import SCALE_PROMISES
from bench.scale.scenarios import SCALE
from bench.scenarios import SMALL_BODY_BYTES
from bench.size import QUICK

STORE = "bendybus postgresql"
BROKER = "bendybus partitioned"


def is_kept(name: str, target: str, **values: float) -> bool:
    """Judge one promise by figures that are given by the names of the enumeration."""
    readings = Readings()
    readings.add(
        Reading(Subject(Figure[figure], target, SMALL_BODY_BYTES), value)
        for figure, value in values.items()
    )
    [found] = [each for each in judge(readings, tuple(SCALE)) if each.promise.name == name]
    return found.is_kept()


@pytest.mark.parametrize(
    ("name", "target", "over", "under", "least"),
    [
        ("send to a PostgreSQL store / plain INSERT", STORE, "STORE_SEND", "PLAIN_INSERT", 60),
        (
            "receive and settle from a PostgreSQL store / plain INSERT",
            *(STORE, "STORE_RECEIVE", "PLAIN_INSERT", 50),
        ),
        (
            "send by two clients, two workers / one",
            *(BROKER, "TWO_WORKERS_SEND", "ONE_WORKER_SEND", 130),
        ),
        (
            "receive by two clients, two workers / one",
            *(BROKER, "TWO_WORKERS_RECEIVE", "ONE_WORKER_RECEIVE", 130),
        ),
        (
            "send by two light clients, two workers / one",
            *(BROKER, "TWO_WORKERS_LIGHT_SEND", "ONE_WORKER_LIGHT_SEND", 130),
        ),
        (
            "receive by two light clients, two workers / one",
            *(BROKER, "TWO_WORKERS_LIGHT_RECEIVE", "ONE_WORKER_LIGHT_RECEIVE", 130),
        ),
    ],
)
def test_a_rate_must_not_fall_below_its_share_of_the_other(
    name: str, target: str, over: str, under: str, least: int
) -> None:
    assert is_kept(name, target, **{over: least, under: 100})
    assert not is_kept(name, target, **{over: least - 1, under: 100})


def test_of_a_hundred_acquires_five_may_be_in_vain() -> None:
    name = "acquires in vain by three front ends, %"
    assert is_kept(name, STORE, VAIN_ACQUIRES=5)
    assert not is_kept(name, STORE, VAIN_ACQUIRES=5.1)


def test_every_scenario_has_a_promise() -> None:
    assert {promise.scenario for promise in SCALE_PROMISES} == set(SCALE)


@pytest.mark.prove
def test_the_small_size_of_what_needs_no_built_client_runs(tmp_path: Path) -> None:
    stage = Stage(Clients(tmp_path), QUICK, tmp_path, "partitioned")
    found = {
        reading.subject.figure
        for play in (postgres.one_store, front_ends.front_ends)
        for reading in play(stage)
    }
    assert found == {
        Figure.PLAIN_INSERT,
        Figure.PLAIN_VALUES,
        Figure.STORE_SEND,
        Figure.STORE_RECEIVE,
        Figure.VAIN_ACQUIRES,
        Figure.FRONT_ENDS_RECEIVE,
    }


@pytest.mark.prove
def test_a_queue_keeps_its_size_while_a_million_messages_pass_through() -> None:
    assert vacuum.main(["--messages", "1000000"]) == 0
