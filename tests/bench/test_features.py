"""What a feature costs is the ratio of the two sides, and either side may be the broken one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.features.filters import IN_PROCESS, correlated
from bench.features.load import Marks
from bench.features.promises import FEATURE_PROMISES
from bench.features.scenarios import FEATURES
from bench.features.stage import in_turns
from bench.features.topics import stored_bytes
from bench.promises import judge
from bench.readings import Figure, Reading, Readings, Subject
from bench.scenarios import NO_BODY, SMALL_BODY_BYTES
from bench.subject_bendybus import KINDS, Entities, Topic, configuration
from bendybus.config_file import load_config
from bendybus.model.rule import CorrelationFilter


def verdict(
    name: str, *values: tuple[Figure, float], kind: str = "partitioned", body_bytes: int
) -> tuple[float | None, bool]:
    readings = Readings()
    target = kind if kind == IN_PROCESS else f"bendybus {kind}"
    readings.add(Reading(Subject(figure, target, body_bytes), value) for figure, value in values)
    [found] = [found for found in judge(readings, tuple(FEATURES)) if found.promise.name == name]
    return found.value, found.is_kept()


@pytest.mark.parametrize(
    ("name", "measured", "against", "limit"),
    [
        (
            "send, topic / queue, partitioned, 200 B",
            Figure.TOPIC_SEND,
            Figure.NO_TOPIC_SEND,
            0.35,
        ),
        (
            "receive, sessions / none, partitioned",
            Figure.SESSIONS_RECEIVE,
            Figure.NO_SESSIONS_RECEIVE,
            0.5,
        ),
        (
            "send, duplicate detection / none, partitioned",
            Figure.DUPLICATES_SEND,
            Figure.NO_DUPLICATES_SEND,
            0.7,
        ),
    ],
)
def test_a_rate_must_not_fall_below_its_share_of_the_other_sides(
    name: str, measured: Figure, against: Figure, limit: float
) -> None:
    def at(rate: float) -> tuple[float | None, bool]:
        return verdict(name, (measured, rate), (against, 1000.0), body_bytes=SMALL_BODY_BYTES)

    assert at(limit * 1000) == (limit, True)
    assert not at(limit * 1000 - 1)[1]


@pytest.mark.parametrize(
    ("name", "measured", "against", "limit"),
    [
        (
            "stored, topic / queue, partitioned, 200 B",
            Figure.TOPIC_STORED,
            Figure.NO_TOPIC_STORED,
            1.3,
        ),
        (
            "p99 beside schedules due / nothing",
            Figure.BESIDE_SCHEDULES_P99,
            Figure.BESIDE_NOTHING_P99,
            2.0,
        ),
        (
            "p99 beside locks ending / nothing",
            Figure.BESIDE_LOCKS_P99,
            Figure.BESIDE_NOTHING_P99,
            2.0,
        ),
    ],
)
def test_a_size_or_a_wait_must_not_rise_above_its_share_of_the_other_sides(
    name: str, measured: Figure, against: Figure, limit: float
) -> None:
    def at(value: float) -> tuple[float | None, bool]:
        return verdict(name, (measured, value), (against, 1000.0), body_bytes=SMALL_BODY_BYTES)

    assert at(limit * 1000) == (limit, True)
    assert not at(limit * 1000 + 1)[1]


def test_accepting_has_to_do_with_no_body() -> None:
    name = "accept next, many sessions / few, partitioned"
    waits = (Figure.ACCEPT_MANY, 6.0), (Figure.ACCEPT_FEW, 2.0)
    assert verdict(name, *waits, body_bytes=NO_BODY) == (3.0, True)


def test_a_send_costs_more_where_the_rate_is_lower() -> None:
    name = "cost of a send, many correlation filters / few, partitioned"
    rates = (Figure.CORRELATIONS_MANY_SEND, 10.0), (Figure.CORRELATIONS_FEW_SEND, 31.0)
    assert verdict(name, *rates, body_bytes=SMALL_BODY_BYTES) == (3.1, False)


def test_a_filter_is_asked_without_any_broker() -> None:
    name = "SQL filter, evaluations/s on one core"
    rate = (Figure.SQL_FILTER, 299_999.0)
    assert verdict(name, rate, kind=IN_PROCESS, body_bytes=NO_BODY) == (299_999.0, False)


def test_the_kinds_of_entity_are_judged_apart() -> None:
    rates = (Figure.DUPLICATES_SEND, 1.0), (Figure.NO_DUPLICATES_SEND, 1.0)
    name = "send, duplicate detection / none, conventional"
    assert not verdict(name, *rates, kind="partitioned", body_bytes=SMALL_BODY_BYTES)[1]
    assert verdict(name, *rates, kind="conventional", body_bytes=SMALL_BODY_BYTES)[1]


def test_every_scenario_of_features_has_promises_and_no_name_comes_twice() -> None:
    assert {promise.scenario for promise in FEATURE_PROMISES} == FEATURES.keys()
    names = [promise.name for promise in FEATURE_PROMISES]
    assert len(names) == len(set(names))


def test_the_sides_take_turns_and_change_who_begins() -> None:
    order: list[str] = []

    def noting(side: str) -> Callable[[int], list[Reading]]:
        def note(number: int) -> list[Reading]:
            order.append(f"{side}{number}")
            return []

        return note

    assert list(in_turns(3, noting("a"), noting("b"))) == []
    assert order == ["a0", "b0", "b1", "a1", "a2", "b2"]


def test_marks_that_are_not_set_are_left_away() -> None:
    assert Marks("x-").arguments() == ("x-",)
    assert Marks("x-", sessions=7, due_ms=9).arguments() == ("x-", "sessions=7", "due_ms=9")


def test_everything_in_a_folder_counts_as_stored(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    before = stored_bytes(tmp_path)
    (tmp_path / "inner" / "file").write_bytes(b"x" * 100_000)
    assert stored_bytes(tmp_path) - before >= 100_000


def test_the_broker_reads_topics_and_filters_as_they_are_meant(tmp_path: Path) -> None:
    topic = Topic(KINDS["partitioned"], correlated(2))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configuration(Entities({}, {"partitioned": topic}))))
    [made] = load_config(path).namespace.topics
    rules = [subscription.rules for subscription in made.subscriptions]
    assert [rule.filter for [rule] in rules] == [
        CorrelationFilter(label="subject-0"),
        CorrelationFilter(label="subject-1"),
    ]
