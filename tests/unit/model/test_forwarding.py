"""Which messages can be taken elsewhere, where to, and what they bring along (R6)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from bendybus.model.entity import EntityStatus, QueueProperties
from bendybus.model.forwarding import (
    HOPS_MAX,
    Undeliverable,
    dead_lettered,
    fragment_at,
    marks_of_forwarded,
    marks_of_transferred,
    place_of,
    source_of,
    sub_queue_for,
    takes_less,
    ways_left,
    why_no_further,
    why_undeliverable,
)
from bendybus.model.ids import QueueNumber, SubQueue, sequence_number
from bendybus.model.message import Lock, Marks, Message, StoredMessage, joined_marks
from bendybus.model.operations import Guard, Move

pytestmark = pytest.mark.spec("R6")
LOST = Undeliverable("Lost", "on the way", is_lost_on_the_way=True)
REFUSED = Undeliverable("Refused", "for ever")


def stored(
    marks: Marks | None = None,
    *,
    content: bytes = b"x",
    session_id: str | None = None,
    enqueued_sequence: int | None = None,
) -> StoredMessage:
    return StoredMessage(
        sequence=7,
        enqueued_at=1,
        delivery_count=2,
        content=content,
        expires_at=None,
        session_id=session_id,
        partition_key=None,
        marks=marks,
        state=0,
        locked_until=9,
        nonce=3,
        enqueued_sequence=enqueued_sequence,
    )


@pytest.mark.parametrize(
    ("properties", "message", "reason"),
    [
        ({}, stored(), None),
        ({"status": EntityStatus.RECEIVE_DISABLED}, stored(), None),
        ({"status": EntityStatus.DISABLED}, stored(), "MessagingEntityDisabled"),
        ({"status": EntityStatus.SEND_DISABLED}, stored(), "MessagingEntityDisabled"),
        ({}, stored(content=bytes(256 * 1024)), None),
        ({}, stored(content=bytes(256 * 1024 + 1)), "MessageSizeExceeded"),
        ({"requires_session": True}, stored(session_id=""), None),
        ({"requires_session": True}, stored(), "Session id is null."),
    ],
)
def test_a_destination_says_what_it_does_not_take(
    properties: dict[str, Any], message: StoredMessage, reason: str | None
) -> None:
    why = why_undeliverable(message, "there", QueueProperties(**properties))
    assert (why.reason if why else None) == reason
    assert why is None or "'there'" in why.description


def test_a_missing_destination_takes_nothing() -> None:
    why = why_undeliverable(stored(), "there", None)
    assert why is not None
    assert (why.reason, why.is_lost_on_the_way) == ("MessagingEntityNotFound", False)


@pytest.mark.parametrize("hops", [None, 1, HOPS_MAX - 1])
def test_a_message_goes_on_until_it_has_made_its_hops(hops: int | None) -> None:
    assert why_no_further(stored(Marks(hops=hops)), "there") is None
    assert why_no_further(stored(), "there") is None


def test_a_message_that_has_made_its_hops_goes_no_further() -> None:
    why = why_no_further(stored(Marks(hops=HOPS_MAX)), "there")
    assert why == Undeliverable(
        "MaxTransferHopCountExceeded",
        "The message was forwarded 4 times and may not be forwarded on to 'there'.",
        is_lost_on_the_way=True,
    )


@pytest.mark.parametrize(
    ("why", "sub_queue", "kept_in"),
    [
        (REFUSED, SubQueue.MAIN, SubQueue.DEAD_LETTER),
        (LOST, SubQueue.MAIN, SubQueue.TRANSFER_DEAD_LETTER),
        (REFUSED, SubQueue.DEAD_LETTER, SubQueue.TRANSFER_DEAD_LETTER),
        (REFUSED, SubQueue.TRANSFER, SubQueue.TRANSFER_DEAD_LETTER),
    ],
)
def test_what_cannot_be_delivered_has_its_place(
    why: Undeliverable, sub_queue: SubQueue, kept_in: SubQueue
) -> None:
    assert sub_queue_for(why, sub_queue) is kept_in


@pytest.mark.parametrize("before", [None, Marks(hops=2, enqueued_sequence=5, destination="there")])
def test_what_cannot_be_delivered_is_moved_with_the_reason(before: Marks | None) -> None:
    queues = QueueNumber(1), QueueNumber(2)
    move = dead_lettered(stored(before), REFUSED, "here", queues)
    after = joined_marks(
        before,
        Marks(
            dead_letter_reason="Refused",
            dead_letter_description="for ever",
            dead_letter_source="here",
        ),
    )
    assert after is not None
    assert move == Move(*queues, Lock(7, 3, 2), after, is_counted=False, guard=Guard.HELD)


def test_a_forwarded_message_brings_all_along_and_counts_its_hops() -> None:
    assert marks_of_forwarded(stored()) == Marks(hops=1, enqueued_sequence=7)
    assert marks_of_forwarded(stored(enqueued_sequence=6)) == Marks(hops=1, enqueued_sequence=6)
    before = Marks("reason", "description", "source", 5, b"changes", hops=2)
    after = Marks("reason", "description", "source", 5, b"changes", hops=3)
    assert marks_of_forwarded(stored(before)) == after


def test_what_a_transaction_sent_arrives_as_if_sent_there() -> None:
    assert marks_of_transferred(stored(Marks(destination="there"))) is None
    assert marks_of_transferred(stored()) is None
    changed = Marks(property_changes=b"changes", destination="there")
    assert marks_of_transferred(stored(changed)) == Marks(property_changes=b"changes")


@pytest.mark.parametrize("source", [0, 5])
def test_messages_without_a_key_have_a_fragment_each_in_turn(source: int) -> None:
    fragments = [
        fragment_at(
            Message(b""), sequence_number(source, counter), 16, has_duplicate_detection=False
        )
        for counter in range(1, 33)
    ]
    assert Counter(fragments) == dict.fromkeys(range(16), 2)
    assert fragments[:16] == fragments[16:]


def test_a_key_has_its_fragment_whatever_the_number() -> None:
    def fragments(message: Message, *, has_duplicate_detection: bool = False) -> set[int]:
        return {
            fragment_at(message, number, 16, has_duplicate_detection=has_duplicate_detection)
            for number in range(1, 40)
        }

    keyed = fragments(Message(b"", partition_key="red"))
    assert keyed == fragments(Message(b"", session_id="red"))
    assert len(keyed) == 1
    assert fragments(Message(b"", "red"), has_duplicate_detection=True) == keyed
    assert fragment_at(Message(b""), 9, 1, has_duplicate_detection=False) == 0


def test_a_source_tells_where_messages_come_from() -> None:
    assert place_of(source_of(15, QueueNumber(70_001))) == (15, 70_001)
    assert source_of(1, QueueNumber(1)) > source_of(0, QueueNumber(1 << 31))


def test_a_way_ends_when_messages_do_not_go_where_they_went() -> None:
    def left(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[SubQueue]:
        return ways_left(QueueProperties(**before), QueueProperties(**after))

    main, dead = {"forward_to": "a"}, {"forward_dead_lettered_messages_to": "a"}
    assert left({}, main) == left({}, dead) == left(main, main) == left(main, main | dead) == []
    assert left(main, {}) == left(main, {"forward_to": "b"}) == [SubQueue.MAIN]
    assert left(dead, main) == [SubQueue.DEAD_LETTER]
    assert left(main | dead, {}) == [SubQueue.MAIN, SubQueue.DEAD_LETTER]


def test_a_destination_takes_less_when_it_is_closed_or_takes_smaller_messages() -> None:
    whole = QueueProperties()
    closed = QueueProperties(status=EntityStatus.DISABLED)
    large = QueueProperties(max_message_size_kilobytes=whole.max_message_size_kilobytes + 1)
    assert takes_less(whole, closed)
    assert takes_less(large, whole)
    assert not takes_less(whole, large)
    assert not takes_less(closed, whole)
    assert not takes_less(closed, QueueProperties(status=EntityStatus.SEND_DISABLED))
    assert not takes_less(whole, QueueProperties(status=EntityStatus.RECEIVE_DISABLED))


def test_later_marks_count_where_both_say_something() -> None:
    before, later = Marks("old", hops=3), Marks("new", "why")
    assert joined_marks(before, later) == Marks("new", "why", hops=3)
    assert joined_marks(None, later) is later
    assert joined_marks(before, None) is before
    assert joined_marks(None, None) is None
