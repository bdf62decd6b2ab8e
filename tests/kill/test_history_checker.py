"""The checker finds each kind of violation, and takes no lawful history for one."""

import pytest

from bendybus.model.ids import sequence_number
from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Entry,
    Left,
    Received,
    Rule,
    Sent,
    check_history,
)


def sent(message: str, key: str | None = "red") -> list[Entry]:
    return [Sent(message, key), Acknowledged(message)]


def received(message: str, sequence: int, count: int = 0, receiver: str = "r") -> list[Entry]:
    return [Received(message, sequence, count, receiver)]


def completed(sequence: int) -> list[Entry]:
    return [CompletionAsked(sequence), Completed(sequence)]


ELSEWHERE = sequence_number(7, 3)

LAWFUL: dict[str, list[Entry]] = {
    "sent, received, completed": [*sent("a"), *received("a", 1), *completed(1)],
    "sent and still there": [*sent("a"), Left("a", 1)],
    "unacknowledged and gone": [Sent("a", "red")],
    "unacknowledged and there": [Sent("a", "red"), Left("a", 1)],
    "completed, but the answer was lost": [*sent("a"), *received("a", 1), CompletionAsked(1)],
    "received again, as no completion was confirmed": [
        *(*sent("a"), *received("a", 1), CompletionAsked(1)),
        *(*received("a", 1, 1), *completed(1)),
    ],
    "sent again, and kept twice": [
        *(Sent("a", None), *sent("a", None)),
        *(*received("a", 1), *received("a", 2), *completed(1), *completed(2)),
    ],
    "an older one comes late, after its lock ended": [
        *(*sent("a"), *sent("b"), *received("b", 2), *received("a", 1, 1)),
        *(*completed(1), *completed(2)),
    ],
    "two receivers report in any order": [
        *(*sent("a"), *sent("b"), *received("b", 2, 0, "r"), *received("a", 1, 0, "s")),
        *(*completed(1), *completed(2)),
    ],
    "two keys in any order": [
        *(*sent("a", "red"), *sent("b", "blue")),
        *(*received("b", ELSEWHERE), *received("a", 1), *completed(ELSEWHERE), *completed(1)),
    ],
    "without a key in any order": [
        *(*sent("a", None), *sent("b", None)),
        *(*received("b", 1), *received("a", 2), *completed(1), *completed(2)),
    ],
}

PLANTED: dict[str, tuple[Rule, list[Entry]]] = {
    "acknowledged and never seen": (Rule.NOTHING_IS_LOST, sent("a")),
    "received, not completed, and gone": (
        Rule.NOTHING_IS_LOST,
        [*sent("a"), *received("a", 1)],
    ),
    "received after its completion": (
        Rule.NOTHING_COMPLETED_COMES_BACK,
        [*sent("a"), *received("a", 1), *completed(1), *received("a", 1, 1)],
    ),
    "still there after its completion": (
        Rule.NOTHING_COMPLETED_COMES_BACK,
        [*sent("a"), *received("a", 1), *completed(1), Left("a", 1)],
    ),
    "two copies of one send": (
        Rule.NOTHING_DOUBLES,
        [*sent("a", None), *received("a", 1), *completed(1), Left("a", 2)],
    ),
    "three copies of two sends": (
        Rule.NOTHING_DOUBLES,
        [Sent("a", None), *sent("a", None), Left("a", 1), Left("a", 2), Left("a", 3)],
    ),
    "received and never sent": (Rule.NOTHING_APPEARS, [*received("a", 1), *completed(1)]),
    "there and never sent": (Rule.NOTHING_APPEARS, [Left("a", 1)]),
    "a number given twice": (
        Rule.A_NUMBER_NAMES_ONE_MESSAGE,
        [*sent("a", None), Sent("b", None), *received("a", 1), *received("b", 1), *completed(1)],
    ),
    "a key in two fragments": (
        Rule.ONE_KEY_ONE_FRAGMENT,
        [*sent("a"), *sent("b"), Left("a", 1), Left("b", ELSEWHERE)],
    ),
    "kept in another order than sent": (
        Rule.KEPT_IN_ORDER,
        [*sent("a"), *sent("b"), Left("a", 2), Left("b", 1)],
    ),
    "received twice as if for the first time": (
        Rule.RECEIVED_IN_ORDER,
        [*sent("a"), *received("a", 1), *received("a", 1), *completed(1)],
    ),
    "received in another order than sent": (
        Rule.RECEIVED_IN_ORDER,
        [*sent("a"), *sent("b"), *received("b", 2), *received("a", 1), Left("a", 1), Left("b", 2)],
    ),
    "completed by two, one of whom had lost the lock": (
        Rule.NOTHING_IS_COMPLETED_TWICE,
        [
            *(*sent("a"), *received("a", 1, 0, "r"), *received("a", 1, 1, "s")),
            *(*completed(1), *completed(1)),
        ],
    ),
}


@pytest.mark.parametrize("log", LAWFUL.values(), ids=LAWFUL.keys())
def test_a_lawful_history_has_no_violation(log: list[Entry]) -> None:
    assert check_history(log) == []


@pytest.mark.parametrize(("rule", "log"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_found_and_named(rule: Rule, log: list[Entry]) -> None:
    assert [violation.rule for violation in check_history(log)] == [rule]


def test_every_rule_has_a_planted_violation() -> None:
    assert {rule for rule, _ in PLANTED.values()} == set(Rule)
