"""ISO 8601 durations, as the Service Bus management API and its configuration files write them.

Only days and smaller units are taken: a year or a month has no fixed length, and the service
never sends one.
"""

import re
from datetime import timedelta
from typing import Final

from bendybus.model.errors import ArgumentInvalid

# The largest .NET TimeSpan. The service writes it where it means "without end"; its seventh
# digit of the second does not fit a timedelta, so the text is kept beside the value.
FOREVER_TEXT: Final = "P10675199DT2H48M5.4775807S"
FOREVER: Final = timedelta(days=10675199, hours=2, minutes=48, seconds=5, microseconds=477580)

_DURATION: Final = re.compile(
    r"P(?=[\dT])(?:(?P<days>\d{1,8})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,12})(?:\.(?P<fraction>\d{1,9}))?S)?)?",
    re.ASCII,
)


def parse_duration(text: str) -> timedelta:
    """Read a duration such as `PT1M` or `P7DT12H`; digits below a microsecond are cut off."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ArgumentInvalid(
            f"{text!r} is not a duration; write it as ISO 8601, for example PT30S, PT5M or P7D"
        )
    units = {name: int(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")}
    microseconds = int((match["fraction"] or "").ljust(6, "0")[:6])
    return timedelta(microseconds=microseconds, **units)


def format_duration(duration: timedelta | None) -> str:
    """Write a duration the way the service does; None means without end."""
    if duration is None or duration >= FOREVER:
        return FOREVER_TEXT
    if duration < timedelta(0):
        raise ArgumentInvalid("a duration cannot be negative")
    hours, rest = divmod(duration.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    date = f"{duration.days}D" if duration.days else ""
    time = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    time += _format_seconds(seconds, duration.microseconds)
    if not date and not time:
        return "PT0S"
    return f"P{date}T{time}" if time else f"P{date}"


def _format_seconds(seconds: int, microseconds: int) -> str:
    if microseconds:
        return f"{seconds}.{microseconds:06d}".rstrip("0") + "S"
    return f"{seconds}S" if seconds else ""
