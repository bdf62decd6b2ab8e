"""What becomes of dead letters that are to be tried again (R8.2).

A message that is redriven begins anew: no deliveries count, its time to live counts from then, and
what made it a dead letter is forgotten. What receivers changed about it stays, and so does when it
was first enqueued.
"""

from dataclasses import replace
from typing import Final

from bendybus.model.ids import FragmentIndex, Instant, SubQueue
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.partitioning import fragment_for
from bendybus.model.rule_actions import Changes

_NO_MARKS: Final = Marks()


def destination_of(stored: StoredMessage, sub_queue: SubQueue) -> str | None:
    """Return the entity that a message was on its way to when it could not be delivered.

    None for all others: they go back to the entity that they are dead letters of.
    """
    if sub_queue is SubQueue.TRANSFER_DEAD_LETTER and stored.marks is not None:
        return stored.marks.destination
    return None


def dead_letter_source_of(stored: StoredMessage) -> str | None:
    """Return the entity that a message became a dead letter of, wherever it was taken since."""
    return None if stored.marks is None else stored.marks.dead_letter_source


def marks_of_redriven(stored: StoredMessage, destination: str | None = None) -> Marks | None:
    """Return what a redriven message keeps of its past, and where it is to be taken."""
    marks = stored.marks or _NO_MARKS
    if destination is None and marks.property_changes is None and marks.enqueued_sequence is None:
        return None  # As nearly always; the rest would come to the same, and take longer.
    kept = replace(
        marks,
        dead_letter_reason=None,
        dead_letter_description=None,
        dead_letter_source=None,
        hops=None,
        destination=destination,
    )
    return None if kept == _NO_MARKS else kept


def expiry_of_redriven(own_ms: int | None, default_ms: int | None, now: Instant) -> Instant | None:
    """Return when a message ends that begins to live anew."""
    life = min((each for each in (own_ms, default_ms) if each is not None), default=None)
    return None if life is None else Instant(now + life)


def fragment_of_edited(
    edited: Message, changes: Changes, fragment_count: int, *, has_duplicate_detection: bool
) -> FragmentIndex | None:
    """Return the fragment that an edited message belongs to; None if any will do.

    Its id counts only when it was changed: otherwise it is where its id belongs.
    """
    key = edited.session_id if edited.session_id is not None else edited.partition_key
    if key is None and has_duplicate_detection:
        key = changes.system.get("MessageId")
    return None if key is None else fragment_for(key, fragment_count)
