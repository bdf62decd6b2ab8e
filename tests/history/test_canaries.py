"""Faults planted in the broker and its store: histories that do not find them prove nothing."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Final

import pytest

from bendybus.broker import receive, redrive, send
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue, Source
from bendybus.broker.waiting import Waiting
from bendybus.model import settlement
from bendybus.model.ids import FragmentIndex, QueueNumber
from bendybus.model.message import Lock, Message
from bendybus.model.operations import Unlock
from bendybus.model.partitioning import places_by_fragment
from tests.history.faults import Fault, Patch, expect_found, replace_sql
from tests.history.test_any_history import ConventionalHistory, PartitionedHistory

pytestmark = pytest.mark.prove


def count_what_is_given_back(patch: Patch) -> None:
    def counted(queue: QueueNumber, locks: list[Lock], *, is_counted: bool) -> Unlock:
        return Unlock(queue, locks, is_counted=not is_counted)

    patch.setattr(receive, "Unlock", counted)


def forget_to_give_back(patch: Patch) -> None:
    async def keep(*_: object) -> None:
        return

    patch.setattr(receive, "give_back", keep)


def allow_one_delivery_more(patch: Patch) -> None:
    def is_last(lock: Lock, policy: settlement.DeliveryPolicy) -> bool:
        is_main = policy.dead_letter_queue is not None
        return is_main and lock.delivery_count >= policy.delivery_count_max

    patch.setattr(settlement, "_is_last_delivery", is_last)


def first_alone(sub_queue: ServedSubQueue) -> list[Source]:
    return [source for source in sub_queue.sources[:1] if source.may_have_messages]


def move_keys(patch: Patch) -> None:
    fragments = count()

    def moved(
        messages: Sequence[Message], fragment_count: int, *, has_duplicate_detection: bool
    ) -> dict[FragmentIndex | None, list[int]]:
        found = places_by_fragment(
            messages, fragment_count, has_duplicate_detection=has_duplicate_detection
        )
        places: dict[FragmentIndex | None, list[int]] = {}
        for fragment, there in found.items():
            other = FragmentIndex(next(fragments) % fragment_count)
            places.setdefault(None if fragment is None else other, []).extend(there)
        return places

    patch.setattr(send, "places_by_fragment", moved)


FAULTS: Final[dict[str, Fault]] = {
    "what is given back is counted": Fault(count_what_is_given_back, PartitionedHistory),
    "what is cached is not given back": Fault(forget_to_give_back, PartitionedHistory),
    "one delivery more than allowed": Fault(allow_one_delivery_more, ConventionalHistory),
    "a key moves between fragments": Fault(move_keys, PartitionedHistory),
    "keyless messages go to one fragment": Fault(
        lambda patch: patch.setattr(ServedQueue, "rotation", lambda self: self.main.sources),
        PartitionedHistory,
    ),
    "receivers ask one fragment only": Fault(
        lambda patch: patch.setattr(ServedSubQueue, "candidates", first_alone),
        PartitionedHistory,
    ),
    "nobody is woken": Fault(
        lambda patch: patch.setattr(Waiting, "wake", lambda *_: None), ConventionalHistory
    ),
    "a lock that has ended still settles": Fault(
        partial(replace_sql, "find_guarded", "nonce = ?3 AND locked_until > ?4", "nonce = ?3"),
        ConventionalHistory,
    ),
    "any lock settles": Fault(
        partial(replace_sql, "find_guarded", "nonce = ?3 AND locked_until > ?4", "1"),
        ConventionalHistory,
    ),
    "locks are not kept": Fault(
        partial(replace_sql, "lock_messages", "locked_until = ?2", "locked_until = NULL"),
        ConventionalHistory,
    ),
    "what has expired is handed out": Fault(
        partial(replace_sql, "find_free", "expires_at > ?2", "?2"), ConventionalHistory
    ),
    "the newest comes first": Fault(
        partial(replace_sql, "find_free", "ORDER BY id", "ORDER BY id DESC"), ConventionalHistory
    ),
    "a number is left out": Fault(
        partial(replace_sql, "reserve_counters", "next_counter + ?2", "next_counter + ?2 + 1"),
        ConventionalHistory,
    ),
    "removing is not counted": Fault(
        partial(replace_sql, "count_down", "message_count - ?2", "message_count - ?2 + 1"),
        ConventionalHistory,
    ),
    "a redrive keeps the deliveries": Fault(
        partial(replace_sql, "requeue_messages", "0, 0, m.", "0, m.delivery_count, m."),
        ConventionalHistory,
    ),
    "a redrive forgets what receivers changed": Fault(
        lambda patch: patch.setattr(redrive, "marks_of_redriven", lambda *_: None),
        ConventionalHistory,
    ),
    "a redrive wakes nobody": Fault(
        lambda patch: patch.setattr(ServedSubQueue, "note_added", lambda *_: None),
        ConventionalHistory,
    ),
    "a move keeps the time to live": Fault(
        partial(replace_sql, "move_messages", "expires_at = NULL,", ""), ConventionalHistory
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_planted_fault_is_found_by_the_histories(fault: Fault, monkeypatch: Patch) -> None:
    expect_found(fault, monkeypatch)
