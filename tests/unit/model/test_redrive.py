"""What becomes of dead letters that are tried again (R8.2)."""

import pytest

from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.partitioning import fragment_for
from bendybus.model.redrive import (
    dead_letter_source_of,
    destination_of,
    expiry_of_redriven,
    fragment_of_edited,
    marks_of_redriven,
)
from bendybus.model.rule_actions import Changes

pytestmark = pytest.mark.spec("R8.2")
NOON = Instant(1_800_000_000_000)
DEAD = Marks("why", "more", "orders")


def stored(marks: Marks | None) -> StoredMessage:
    return StoredMessage(7, NOON, 3, b"x", None, None, None, marks, 0, None, None)


def test_what_made_it_a_dead_letter_is_forgotten() -> None:
    assert marks_of_redriven(stored(None)) is None
    assert marks_of_redriven(stored(DEAD)) is None
    assert marks_of_redriven(stored(Marks("why", hops=4))) is None


def test_what_receivers_changed_and_its_first_number_stay() -> None:
    changed = Marks("why", "more", "orders", 5, b"\x01", 2, "elsewhere")
    assert marks_of_redriven(stored(changed)) == Marks(
        enqueued_sequence=5, property_changes=b"\x01"
    )


@pytest.mark.parametrize("marks", [None, DEAD])
def test_one_on_its_way_elsewhere_says_where(marks: Marks | None) -> None:
    assert marks_of_redriven(stored(marks), "there") == Marks(destination="there")


def test_only_what_could_not_be_delivered_has_a_destination() -> None:
    marks = Marks("why", destination="there")
    assert destination_of(stored(marks), SubQueue.TRANSFER_DEAD_LETTER) == "there"
    assert destination_of(stored(None), SubQueue.TRANSFER_DEAD_LETTER) is None
    assert destination_of(stored(marks), SubQueue.DEAD_LETTER) is None


def test_the_source_is_the_entity_that_it_died_in() -> None:
    assert dead_letter_source_of(stored(DEAD)) == "orders"
    assert dead_letter_source_of(stored(None)) is None


@pytest.mark.parametrize(
    ("own", "default", "life"),
    [(None, None, None), (5, None, 5), (None, 9, 9), (5, 9, 5), (9, 5, 5)],
)
def test_a_life_begins_anew_with_the_shorter_of_both_times(
    own: int | None, default: int | None, life: int | None
) -> None:
    expected = None if life is None else NOON + life
    assert expiry_of_redriven(own, default, NOON) == expected


@pytest.mark.parametrize(
    ("session_id", "key", "new_id", "has_detection", "expected"),
    [
        (None, None, None, True, None),
        (None, None, "an id", False, None),
        (None, None, "an id", True, "an id"),
        (None, "k", "an id", True, "k"),
        ("s", "s", None, False, "s"),
    ],
)
def test_an_edited_message_belongs_to_the_fragment_of_its_key(
    session_id: str | None,
    key: str | None,
    new_id: str | None,
    has_detection: bool,
    expected: str | None,
) -> None:
    edited = Message(b"x", session_id=session_id, partition_key=key)
    changes = Changes({} if new_id is None else {"MessageId": new_id}, {}, frozenset())
    found = fragment_of_edited(edited, changes, 16, has_duplicate_detection=has_detection)
    assert found == (None if expected is None else fragment_for(expected, 16))
