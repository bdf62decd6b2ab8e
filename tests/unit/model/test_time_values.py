"""Times and durations in rules are numbers that remember how they were written."""

from datetime import UTC, datetime

import pytest

from bendybus.model.correlation import compared_and_key
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.rule import CorrelationFilter
from bendybus.model.time_values import Moment, Span, parse_date_time


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:30:00+01:30", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("2020-07-05T11:12:13.4567891Z", 1_593_947_533_456),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_a_time_is_the_milliseconds_since_1970(text: str, milliseconds: int) -> None:
    moment = Moment.from_text(text)
    assert (moment, moment.text) == (milliseconds, text)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT0S", 0), ("P1DT2H3M", 93_780_000), ("PT0.0015S", 1)],
)
def test_a_duration_is_a_number_of_milliseconds(text: str, milliseconds: int) -> None:
    span = Span.from_text(text)
    assert (span, span.text) == (milliseconds, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2020-07-05",
        "2020-13-05T00:00:00",
        "2020-02-30T00:00:00Z",
        "2020-07-05T24:00:01Z",
        "2020-07-05T11:12:13+24:00",
        "2020-07-05T11:12:13 Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ArgumentInvalid, match="is not a time"):
        parse_date_time(text)


def test_digits_below_a_microsecond_are_cut_off() -> None:
    read = parse_date_time("2020-07-05T11:12:13.1234567Z")
    assert read == datetime(2020, 7, 5, 11, 12, 13, 123_456, tzinfo=UTC)


def test_a_time_in_a_filter_equals_the_number_that_a_message_has() -> None:
    at = Moment.from_text("2020-07-05T11:12:13Z")
    plain = CorrelationFilter(properties={"at": 1_593_947_533_000})
    assert compared_and_key(CorrelationFilter(properties={"at": at})) == compared_and_key(plain)
