"""The checker of schedules finds each kind of violation, and takes no lawful history for one."""

import pytest

from bendybus.testing.schedule_checker import (
    Came,
    CancelAsked,
    Cancelled,
    ScheduleAsked,
    Scheduled,
    ScheduleEntry,
    ScheduleRule,
    check_schedules,
)

SCHEDULED: list[ScheduleEntry] = [ScheduleAsked("a", 100), Scheduled("a")]

LAWFUL: dict[str, list[ScheduleEntry]] = {
    "comes in time": [*SCHEDULED, Came("a", 1, 100)],
    "comes late": [*SCHEDULED, Came("a", 1, 900)],
    "comes again, under the same number": [*SCHEDULED, Came("a", 1, 100), Came("a", 1, 900)],
    "never accepted and never there": [ScheduleAsked("a", 100)],
    "accepted, but the answer was lost": [ScheduleAsked("a", 100), Came("a", 1, 100)],
    "cancelled": [*SCHEDULED, CancelAsked("a"), Cancelled("a")],
    "cancelled, but the answer was lost": [*SCHEDULED, CancelAsked("a")],
    "too late to be cancelled": [*SCHEDULED, CancelAsked("a"), Came("a", 1, 100)],
}

PLANTED: dict[str, tuple[ScheduleRule, list[ScheduleEntry]]] = {
    "early": (ScheduleRule.NOTHING_COMES_EARLY, [*SCHEDULED, Came("a", 1, 99)]),
    "lost": (ScheduleRule.NOTHING_IS_LOST, SCHEDULED),
    "two numbers": (
        ScheduleRule.NOTHING_DOUBLES,
        [*SCHEDULED, Came("a", 1, 100), Came("a", 2, 100)],
    ),
    "cancelled, and came": (
        ScheduleRule.CANCELLED_STAYS_AWAY,
        [*SCHEDULED, CancelAsked("a"), Cancelled("a"), Came("a", 1, 100)],
    ),
    "never scheduled": (ScheduleRule.NOTHING_APPEARS, [Came("a", 1, 100)]),
}


@pytest.mark.parametrize("log", LAWFUL.values(), ids=LAWFUL.keys())
def test_a_lawful_history_passes(log: list[ScheduleEntry]) -> None:
    assert check_schedules(log) == []


@pytest.mark.parametrize(("rule", "log"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_found_and_named(
    rule: ScheduleRule, log: list[ScheduleEntry]
) -> None:
    assert [violation.rule for violation in check_schedules(log)] == [rule]


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _ in PLANTED.values()} == set(ScheduleRule)
