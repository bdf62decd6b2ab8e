"""Times and durations among the values of rules.

To a rule a time is the number of milliseconds since 1970 in UTC, and a duration a number of
milliseconds (`message_view`), so both are numbers here too. Beside that they keep the text they
came as: a client that asks for its rule gets back what it wrote, to the last digit, with or
without a zone.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from bendybus.model.durations import parse_duration
from bendybus.model.errors import ArgumentInvalid

_DATE_TIME: Final = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:\d\d)?",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Moment(int):
    """A time, in milliseconds since 1970 in UTC, and the text that said so."""

    text: str

    @classmethod
    def from_text(cls, text: str) -> "Moment":
        """Read a time such as `2026-01-31T12:00:00Z`. Raises `ArgumentInvalid`."""
        moment = cls((parse_date_time(text) - _EPOCH) // _MILLISECOND)
        moment.text = text
        return moment


class Span(int):
    """A duration, in milliseconds, and the text that said so."""

    text: str

    @classmethod
    def from_text(cls, text: str) -> "Span":
        """Read a duration such as `PT30S`. Raises `ArgumentInvalid`."""
        span = cls(parse_duration(text) // _MILLISECOND)
        span.text = text
        return span


def parse_date_time(text: str) -> datetime:
    """Read a time as XML Schema writes it; without a zone it is UTC.

    Digits below a microsecond are cut off: .NET writes seven.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise _not_a_time(text)
    try:
        return datetime.fromisoformat(match["whole"]).replace(
            microsecond=int((match["fraction"] or "").ljust(6, "0")[:6]),
            tzinfo=_zone(match["zone"]),
        )
    except ValueError:
        raise _not_a_time(text) from None


def _not_a_time(text: str) -> ArgumentInvalid:
    return ArgumentInvalid(
        f"{text!r} is not a time; write it as ISO 8601, for example 2026-01-31T12:00:00Z"
    )


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    away = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    return timezone(-away if text[0] == "-" else away)
