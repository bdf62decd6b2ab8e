"""The bounds on messages, names and entities, and the checks that hold values to them.

Every refusal carries the name of the offending field in `argument`, so that an edge can point
to the place in a file or a request that it came from.
"""

import re
from datetime import timedelta
from typing import Final

from bendybus.model.durations import format_duration
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange

ENTITY_NAME_LENGTH_MAX: Final = 260
KEY_LENGTH_MAX: Final = 128  # of message, session and partition keys
PROPERTY_BYTES_MAX: Final = 32 * 1024  # of the value of one application property
PROPERTIES_BYTES_MAX: Final = 64 * 1024  # of all of a message
# What the header says of a message that lives as long as its queue allows, in milliseconds.
TIME_TO_LIVE_FOREVER: Final = 0xFFFFFFFF
# The last moment that clients' own clocks can express.
SCHEDULED_MAX: Final = 253_402_300_799_999
SHORT_NAME_LENGTH_MAX: Final = 50  # of namespaces, subscriptions and rules
USER_METADATA_LENGTH_MAX: Final = 1024
SQL_TEXT_LENGTH_MAX: Final = 1024

LOCK_DURATION_MIN: Final = timedelta(seconds=5)
LOCK_DURATION_MAX: Final = timedelta(minutes=5)
TIME_TO_LIVE_MIN: Final = timedelta(seconds=1)
AUTO_DELETE_ON_IDLE_MIN: Final = timedelta(minutes=5)
DUPLICATE_WINDOW_MIN: Final = timedelta(seconds=20)
DUPLICATE_WINDOW_MAX: Final = timedelta(days=7)
DELIVERY_COUNT_MAX: Final = 2000
SIZE_MEGABYTES_STEP: Final = 1024
SIZE_MEGABYTES_MAX: Final = 80 * 1024  # in the largest tier
MESSAGE_KILOBYTES_MIN: Final = 256
MESSAGE_KILOBYTES_MAX: Final = 102_400

_ENTITY_NAME: Final = re.compile(r"[A-Za-z0-9._\-]+(/[A-Za-z0-9._\-]+)*")
_SHORT_NAME: Final = re.compile(r"[A-Za-z0-9._\-]+")
_RULE_NAME: Final = re.compile(r"\$Default|[A-Za-z0-9._\-]+")


def check_entity_name(name: str, *, argument: str = "name") -> None:
    """Refuse a name that a queue or topic cannot have."""
    _check_length(name, ENTITY_NAME_LENGTH_MAX, argument)
    if not _ENTITY_NAME.fullmatch(name):
        raise ArgumentInvalid(
            f"{name!r} is not a name: use letters, digits, '.', '-', '_' and, between other"
            " characters, single '/'",
            argument=argument,
        )


def check_short_name(name: str, *, argument: str = "name") -> None:
    """Refuse a name that a namespace or subscription cannot have."""
    _check_simple_name(name, _SHORT_NAME, argument)


def check_rule_name(name: str, *, argument: str = "name") -> None:
    """Refuse a name that a rule cannot have; `$Default` is the one reserved name it may."""
    _check_simple_name(name, _RULE_NAME, argument)


def check_duration(
    value: timedelta, least: timedelta, most: timedelta | None, *, argument: str
) -> None:
    """Refuse a duration outside its bounds; no upper one when `most` is None."""
    if value < least or (most is not None and value > most):
        bounds = f"at least {format_duration(least)}"
        if most is not None:
            bounds = f"between {format_duration(least)} and {format_duration(most)}"
        raise ArgumentOutOfRange(f"must be {bounds}", argument=argument)


def check_number(value: int, least: int, most: int, *, argument: str, step: int = 1) -> None:
    """Refuse a number outside its bounds or between its steps."""
    if not least <= value <= most or value % step:
        steps = f" in steps of {step}" if step > 1 else ""
        raise ArgumentOutOfRange(
            f"must be between {least} and {most}{steps}, not {value}", argument=argument
        )


def check_text_length(value: str, most: int, *, argument: str) -> None:
    """Refuse a text of more than `most` characters."""
    if len(value) > most:
        raise ArgumentOutOfRange(
            f"must have at most {most} characters, not {len(value)}", argument=argument
        )


def _check_simple_name(name: str, pattern: re.Pattern[str], argument: str) -> None:
    _check_length(name, SHORT_NAME_LENGTH_MAX, argument)
    if not pattern.fullmatch(name):
        raise ArgumentInvalid(
            f"{name!r} is not a name: use letters, digits, '.', '-' and '_'", argument=argument
        )


def _check_length(name: str, most: int, argument: str) -> None:
    if not name:
        raise ArgumentInvalid("a name is needed", argument=argument)
    check_text_length(name, most, argument=argument)
