"""Which messages of a queue an operator means, and what a condition sees of them."""

from uuid import uuid4

import pytest

from bendybus.client.message import Message
from bendybus.content.incoming_message import read_message
from bendybus.content.rule_view import WireContentReader
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import Instant
from bendybus.model.message import Marks, StoredMessage
from bendybus.model.selection import Selection, condition_of, edit_of
from bendybus.model.stored_view import view_of

NOON = Instant(1_800_000_000_000)
READER = WireContentReader()


def stored(**changed: object) -> StoredMessage:
    """Return a message that is in a queue."""
    sent = Message(
        b"body", subject="a label", session_id="s", application_properties={"colour": "red"}
    )
    content = read_message(sent.encode()).content
    marks = Marks("why", "more", "orders")
    message = StoredMessage(
        7, NOON, 3, content, Instant(NOON + 9), "s", None, marks, 0, Instant(NOON + 5), 1, 4
    )
    return message._replace(**changed)  # type: ignore[arg-type]  # by their names


def includes(selection: Selection, **changed: object) -> bool:
    return selection.includes(stored(**changed), READER)


def test_nothing_said_means_all() -> None:
    assert includes(Selection())
    assert includes(Selection(), marks=None)


def test_the_times_are_both_included() -> None:
    assert includes(Selection(enqueued_since=NOON, enqueued_until=NOON))
    assert not includes(Selection(enqueued_since=Instant(NOON + 1)))
    assert not includes(Selection(enqueued_until=Instant(NOON - 1)))


def test_the_reason_must_be_the_same() -> None:
    assert includes(Selection(reason="why"))
    assert not includes(Selection(reason="Why"))
    assert not includes(Selection(reason="why"), marks=None)


@pytest.mark.parametrize(
    "text",
    [
        "colour = 'red' AND DeadLetterReason = 'why'",
        "sys.Label = 'a label' AND sys.SessionId = 's'",
        "sys.SequenceNumber = 7 AND sys.EnqueuedSequenceNumber = 4 AND sys.DeliveryCount = 3",
        f"sys.EnqueuedTimeUtc = {NOON} AND sys.ExpiresAtUtc = {NOON + 9}",
        f"sys.LockedUntilUtc = {NOON + 5} AND sys.State = 0",
        "sys.DeadLetterSource = 'orders'",
    ],
)
def test_a_condition_sees_the_message_as_it_is_in_its_queue(text: str) -> None:
    assert includes(Selection(condition=condition_of(text, uuid4)))


def test_the_first_number_is_the_one_that_is_known() -> None:
    view = view_of(stored(marks=Marks(enqueued_sequence=2)), READER)
    assert view.system("EnqueuedSequenceNumber") == 2
    view = view_of(stored(marks=None, enqueued_sequence=None), READER)
    assert view.system("EnqueuedSequenceNumber") == 7


def test_one_that_a_condition_cannot_be_asked_of_is_not_meant() -> None:
    condition = condition_of("colour = 'red'", uuid4)
    assert not includes(Selection(condition=condition), content=b"\x00\x00\x53\x74\xff")
    assert not includes(Selection(condition=condition_of("colour = 'blue'", uuid4)))


def test_a_text_is_compiled_once_and_refused_if_it_means_nothing() -> None:
    assert condition_of("a = 1", uuid4) is condition_of("a = 1", uuid4)
    assert edit_of("SET a = 1", uuid4) is edit_of("SET a = 1", uuid4)
    with pytest.raises(ArgumentInvalid):
        condition_of("a =", uuid4)
    with pytest.raises(ArgumentInvalid):
        edit_of("a = 1", uuid4)
