"""What is promised of the doors beside AMQP, held against readings."""

import json
from pathlib import Path

import pytest

from bench.doors.management import ENTITIES, OTHERS
from bench.doors.promises import DOOR_PROMISES
from bench.doors.scenarios import DOORS
from bench.promises import judge
from bench.readings import Figure, Reading, Readings, Subject
from bench.scenarios import SMALL_BODY_BYTES
from bench.subject_bendybus import KINDS, Entities, configuration
from bendybus.config_file import load_config


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "figure", "least"),
    [
        ("REST sends/s, {}", Figure.REST_SEND, 3_000),
        ("management gets/s of 1,000 entities, {}", Figure.MANAGEMENT_GET, 500),
        ("dead letters redriven/s, {}", Figure.REDRIVE, 20_000),
    ],
)
def test_a_rate_must_not_fall_below_what_is_promised(
    kind: str, name: str, figure: Figure, least: int
) -> None:
    def is_kept(rate: float) -> bool:
        readings = Readings()
        subject = Subject(figure, f"bendybus {kind}", SMALL_BODY_BYTES)
        readings.add([Reading(subject, rate)])
        [found] = [
            found
            for found in judge(readings, tuple(DOORS))
            if found.promise.name == name.format(kind)
        ]
        return found.is_kept()

    assert is_kept(least)
    assert not is_kept(least - 1)


def test_every_door_has_a_promise() -> None:
    assert {promise.scenario for promise in DOOR_PROMISES} == set(DOORS)


def test_a_thousand_entities_are_configured(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    entities = Entities({"partitioned": KINDS["partitioned"], **OTHERS})
    path.write_text(json.dumps(configuration(entities)))
    assert len(load_config(path).namespace.queues) == ENTITIES
