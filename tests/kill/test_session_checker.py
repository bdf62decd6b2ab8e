"""The checker of sessions finds each kind of violation, and takes no lawful history for one."""

import pytest

from bendybus.testing.history_checker import Completed, CompletionAsked, Left, Received, Sent
from bendybus.testing.session_checker import (
    Accepted,
    Ended,
    SessionEntry,
    SessionRule,
    StateAsked,
    StateKept,
    StateSeen,
    check_sessions,
)

SENT: list[SessionEntry] = [Sent("a", "red"), Sent("b", "red"), Sent("c", "red")]
FIRST = Accepted("red", "first")
FIRST_ENDED = Ended("red", "first")
SECOND = Accepted("red", "second")


def received(message: str, sequence: int, holder: str = "first", count: int = 0) -> Received:
    return Received(message, sequence, count, holder)


def completed(sequence: int) -> list[SessionEntry]:
    return [CompletionAsked(sequence), Completed(sequence)]


LAWFUL: dict[str, list[SessionEntry]] = {
    "one after the other": [
        *(*SENT, FIRST, received("a", 1), *completed(1), FIRST_ENDED),
        *(SECOND, received("b", 2, "second"), *completed(2)),
    ],
    "several at once": [*SENT, FIRST, received("a", 1), received("b", 2), received("c", 3)],
    "given up, and again before the others": [
        *(*SENT, FIRST, received("a", 1), received("b", 2), received("a", 1, count=1)),
    ],
    "completed, but the answer was lost": [
        *(*SENT, FIRST, received("a", 1), CompletionAsked(1), FIRST_ENDED),
        *(SECOND, received("b", 2, "second")),
    ],
    "two sessions side by side": [
        *(*SENT, Sent("x", "blue"), FIRST, Accepted("blue", "other")),
        *(received("x", 9, "other"), received("a", 1)),
    ],
    "a state that was confirmed is found": [
        *(FIRST, StateAsked("red", b"1"), StateKept("red", b"1"), StateSeen("red", b"1")),
    ],
    "a state without an answer is found": [FIRST, StateAsked("red", b"1"), StateSeen("red", b"1")],
    "a state without an answer is not there": [
        *(FIRST, StateAsked("red", b"1"), StateSeen("red", None), StateSeen("red", None)),
    ],
    "no state yet": [FIRST, StateSeen("red", None)],
}

PLANTED: dict[str, tuple[SessionRule, list[SessionEntry]]] = {
    "accepted while somebody holds it": (SessionRule.ONE_HOLDER, [FIRST, SECOND]),
    "accepted again after another one's end": (
        SessionRule.ONE_HOLDER,
        [FIRST, Ended("red", "nobody"), SECOND],
    ),
    "a newer message first": (
        SessionRule.IN_ORDER,
        [*SENT, FIRST, received("b", 2), received("a", 1)],
    ),
    "an older message that is still there at the end was left out": (
        SessionRule.IN_ORDER,
        [*SENT, FIRST, received("b", 2), Left("a", 1)],
    ),
    "what another holder had in hands is left out": (
        SessionRule.IN_ORDER,
        [*SENT, FIRST, received("a", 1), FIRST_ENDED, SECOND, received("b", 2, "second")],
    ),
    "a confirmed state is gone": (
        SessionRule.THE_STATE_IS_KEPT,
        [FIRST, StateAsked("red", b"1"), StateKept("red", b"1"), StateSeen("red", None)],
    ),
    "an old state comes back": (
        SessionRule.THE_STATE_IS_KEPT,
        [
            *(StateAsked("red", b"1"), StateKept("red", b"1")),
            *(StateAsked("red", b"2"), StateKept("red", b"2"), StateSeen("red", b"1")),
        ],
    ),
    "a state changes by itself": (
        SessionRule.THE_STATE_IS_KEPT,
        [StateAsked("red", b"1"), StateSeen("red", None), StateSeen("red", b"1")],
    ),
    "another session's state": (
        SessionRule.THE_STATE_IS_KEPT,
        [StateAsked("red", b"1"), StateKept("red", b"1"), StateSeen("blue", b"1")],
    ),
}


@pytest.mark.parametrize("log", LAWFUL.values(), ids=LAWFUL.keys())
def test_a_lawful_history_passes(log: list[SessionEntry]) -> None:
    assert check_sessions(log) == []


@pytest.mark.parametrize(("rule", "log"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_found_and_named(rule: SessionRule, log: list[SessionEntry]) -> None:
    assert [violation.rule for violation in check_sessions(log)] == [rule]


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _ in PLANTED.values()} == set(SessionRule)
