"""ISO 8601 durations."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.model.durations import FOREVER, FOREVER_TEXT, format_duration, parse_duration
from bendybus.model.errors import ArgumentInvalid


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("PT30S", timedelta(seconds=30)),
        ("PT1M", timedelta(minutes=1)),
        ("PT1H30M", timedelta(hours=1, minutes=30)),
        ("P7D", timedelta(days=7)),
        ("P1DT0.5S", timedelta(days=1, milliseconds=500)),
        ("PT0S", timedelta(0)),
        ("PT90S", timedelta(seconds=90)),
        ("PT0.1234567S", timedelta(microseconds=123456)),
        (FOREVER_TEXT, FOREVER),
    ],
)
def test_a_duration_is_read(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "P1DT", "1M", "PT1", "P1M", "P1Y", "-PT1S", "PT1S ", "pt1s", "P1D2H", "PT٣S"],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ArgumentInvalid, match="for example PT30S"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=FOREVER))
def test_what_is_written_is_read_back(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


def test_without_end_is_written_as_the_service_writes_it() -> None:
    assert format_duration(None) == FOREVER_TEXT
    assert format_duration(timedelta.max) == FOREVER_TEXT


def test_a_negative_duration_is_not_written() -> None:
    with pytest.raises(ArgumentInvalid, match="negative"):
        format_duration(timedelta(seconds=-1))


def test_whole_days_need_no_time() -> None:
    assert format_duration(timedelta(days=2)) == "P2D"
