"""Judges what clients saw of scheduled messages while their broker was killed.

A pure function over their log. The rules:

1. Nothing comes early: not before the instant that it was scheduled for.
2. Nothing is lost. What was accepted, and nobody asked to cancel, has come by the end.
3. Nothing doubles: however often it is delivered, it is under one sequence number.
4. What was cancelled, and that was confirmed, does not come.
5. Nothing appears that was not scheduled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class ScheduleAsked:
    """A client asked that a message comes at an instant, in milliseconds."""

    message: str
    due_at: int


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The broker accepted it."""

    message: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A client asked that it does not come."""

    message: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The broker confirmed that."""

    message: str


@dataclass(frozen=True, slots=True)
class Came:
    """A receiver was given the message at an instant, by the same clock."""

    message: str
    sequence: int
    at: int


ScheduleEntry = ScheduleAsked | Scheduled | CancelAsked | Cancelled | Came


class ScheduleRule(Enum):
    """What the broker promised, numbered as above."""

    NOTHING_COMES_EARLY = 1
    NOTHING_IS_LOST = 2
    NOTHING_DOUBLES = 3
    CANCELLED_STAYS_AWAY = 4
    NOTHING_APPEARS = 5


@dataclass(frozen=True, slots=True)
class ScheduleViolation:
    """A promise that was broken, and by which message."""

    rule: ScheduleRule
    message: str


def check_schedules(log: Sequence[ScheduleEntry]) -> list[ScheduleViolation]:
    """Return every violation. The log ends when all that is there has come."""
    return list(_violations(log))


def _violations(log: Sequence[ScheduleEntry]) -> Iterator[ScheduleViolation]:
    due = {entry.message: entry.due_at for entry in log if isinstance(entry, ScheduleAsked)}
    cancelled = {entry.message for entry in log if isinstance(entry, Cancelled)}
    given_up = {entry.message for entry in log if isinstance(entry, CancelAsked)}
    numbers: dict[str, int] = {}
    for entry in log:
        if not isinstance(entry, Came):
            continue
        if entry.message not in due:
            yield ScheduleViolation(ScheduleRule.NOTHING_APPEARS, entry.message)
        elif entry.at < due[entry.message]:
            yield ScheduleViolation(ScheduleRule.NOTHING_COMES_EARLY, entry.message)
        if entry.message in cancelled:
            yield ScheduleViolation(ScheduleRule.CANCELLED_STAYS_AWAY, entry.message)
        if numbers.setdefault(entry.message, entry.sequence) != entry.sequence:
            yield ScheduleViolation(ScheduleRule.NOTHING_DOUBLES, entry.message)
    for entry in log:
        is_awaited = isinstance(entry, Scheduled) and entry.message not in given_up
        if is_awaited and entry.message not in numbers:
            yield ScheduleViolation(ScheduleRule.NOTHING_IS_LOST, entry.message)
