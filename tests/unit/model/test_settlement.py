"""What outcomes, ended locks and ended lives mean for a message: every case of the table."""

import dataclasses

import pytest

from bendybus.model.errors import InvalidOperation
from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock, Marks
from bendybus.model.operations import Guard, Move, Operation, Remove, Rewrite, SetAside, Unlock
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release
from bendybus.model.settlement import (
    DEAD_LETTER_TEXT_LENGTH_MAX,
    DeliveryPolicy,
    operation_for_due,
    operations_for,
)

QUEUE, DEAD_LETTERS = QueueNumber(1), QueueNumber(2)
POLICY = DeliveryPolicy(QUEUE, "orders", DEAD_LETTERS, 3, is_dead_lettered_on_expiry=False)
OF_DEAD_LETTERS = dataclasses.replace(POLICY, queue=DEAD_LETTERS, dead_letter_queue=None)
FIRST, LAST = Lock(7, 99, 0), Lock(7, 99, 2)
TOO_OFTEN = Marks(
    dead_letter_reason="MaxDeliveryCountExceeded",
    dead_letter_description="Message could not be consumed after 3 delivery attempts.",
    dead_letter_source="orders",
)


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("outcome", "lock", "expected"),
    [
        (Complete(), FIRST, [Remove(QUEUE, [FIRST])]),
        (Complete(), LAST, [Remove(QUEUE, [LAST])]),
        (Release(), FIRST, [Unlock(QUEUE, [FIRST], is_counted=False)]),
        (Release(), LAST, [Unlock(QUEUE, [LAST], is_counted=False)]),
        (Abandon(), FIRST, [Unlock(QUEUE, [FIRST], is_counted=True)]),
        (Abandon(), Lock(7, 99, 1), [Unlock(QUEUE, [Lock(7, 99, 1)], is_counted=True)]),
        (Abandon(), LAST, [Move(QUEUE, DEAD_LETTERS, LAST, TOO_OFTEN, is_counted=True)]),
        (
            Abandon(b"c"),
            FIRST,
            [
                Rewrite(QUEUE, FIRST, Marks(property_changes=b"c")),
                Unlock(QUEUE, [FIRST], is_counted=True),
            ],
        ),
        (
            DeadLetter("r", "d", b"c"),
            FIRST,
            [
                Move(
                    QUEUE,
                    DEAD_LETTERS,
                    FIRST,
                    Marks("r", "d", "orders", None, b"c"),
                    is_counted=False,
                )
            ],
        ),
        (
            DeadLetter(),
            FIRST,
            [
                Move(
                    QUEUE,
                    DEAD_LETTERS,
                    FIRST,
                    Marks(dead_letter_source="orders"),
                    is_counted=False,
                )
            ],
        ),
    ],
)
def test_an_outcome_means_these_writes(
    outcome: Outcome, lock: Lock, expected: list[Operation]
) -> None:
    assert operations_for(outcome, lock, None, POLICY) == expected


@pytest.mark.spec("R4")
def test_changes_are_added_behind_earlier_ones_and_other_marks_stay() -> None:
    marks = Marks("r", "d", "source", 3, b"early")

    operations = operations_for(Abandon(b"late"), FIRST, marks, OF_DEAD_LETTERS)

    assert operations[0] == Rewrite(DEAD_LETTERS, FIRST, Marks("r", "d", "source", 3, b"earlylate"))


@pytest.mark.spec("R4")
@pytest.mark.parametrize("outcome", [DeadLetter("r", None, b"late"), Abandon(b"late")])
def test_changes_go_with_the_message_to_the_dead_letters(outcome: Outcome) -> None:
    [operation] = operations_for(outcome, LAST, Marks(property_changes=b"early"), POLICY)

    assert isinstance(operation, Move)
    assert operation.marks.property_changes == b"earlylate"


@pytest.mark.spec("R4")
def test_from_the_dead_letters_nothing_leads_but_completing() -> None:
    many = Lock(7, 99, 1000)

    assert operations_for(Complete(), many, None, OF_DEAD_LETTERS) == [Remove(DEAD_LETTERS, [many])]
    assert operations_for(Abandon(), many, None, OF_DEAD_LETTERS) == [
        Unlock(DEAD_LETTERS, [many], is_counted=True)
    ]
    with pytest.raises(InvalidOperation):
        operations_for(DeadLetter(), many, None, OF_DEAD_LETTERS)


@pytest.mark.spec("R4")
@pytest.mark.parametrize("lock", [FIRST, LAST])
def test_deferring_sets_the_message_aside_and_never_counts(lock: Lock) -> None:
    assert operations_for(Defer(), lock, None, POLICY) == [SetAside(POLICY.queue, [lock])]


@pytest.mark.spec("R4")
def test_changes_made_when_deferring_are_kept() -> None:
    before = Marks(property_changes=b"early")

    assert operations_for(Defer(b"late"), FIRST, before, POLICY) == [
        Rewrite(POLICY.queue, FIRST, Marks(property_changes=b"earlylate")),
        SetAside(POLICY.queue, [FIRST]),
    ]


@pytest.mark.spec("R4")
def test_reason_and_description_are_cut_at_their_limit() -> None:
    text = "x" * (DEAD_LETTER_TEXT_LENGTH_MAX + 1)

    [operation] = operations_for(DeadLetter(text, text), FIRST, None, POLICY)

    assert isinstance(operation, Move)
    assert operation.marks.dead_letter_reason == text[:-1]
    assert operation.marks.dead_letter_description == text[:-1]


@pytest.mark.spec("R3.3")
def test_an_ended_lock_is_a_counted_delivery() -> None:
    operation = operation_for_due(Guard.LAPSED, FIRST, None, POLICY)

    assert operation == Unlock(QUEUE, [FIRST], is_counted=True, guard=Guard.LAPSED)


@pytest.mark.spec("R4")
def test_the_last_ended_lock_moves_the_message() -> None:
    operation = operation_for_due(Guard.LAPSED, LAST, None, POLICY)

    assert operation == Move(
        QUEUE, DEAD_LETTERS, LAST, TOO_OFTEN, is_counted=True, guard=Guard.LAPSED
    )


@pytest.mark.spec("R4")
def test_locks_in_the_dead_letters_end_without_limit() -> None:
    operation = operation_for_due(Guard.LAPSED, Lock(7, 99, 1000), None, OF_DEAD_LETTERS)

    assert isinstance(operation, Unlock)


@pytest.mark.spec("R4")
def test_an_expired_message_is_removed_unless_the_queue_wants_it_dead_lettered() -> None:
    keeping = dataclasses.replace(POLICY, is_dead_lettered_on_expiry=True)

    removed = operation_for_due(Guard.FREE, FIRST, None, POLICY)
    moved = operation_for_due(Guard.FREE, FIRST, Marks(property_changes=b"c"), keeping)

    assert removed == Remove(QUEUE, [FIRST], guard=Guard.FREE)
    assert moved == Move(
        QUEUE,
        DEAD_LETTERS,
        FIRST,
        Marks(
            "TTLExpiredException",
            "The message expired and was dead lettered.",
            "orders",
            None,
            b"c",
        ),
        is_counted=False,
        guard=Guard.FREE,
    )
