"""Faults planted in each feature: a history that does not find them proves nothing about it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final

import pytest

from bendybus.broker import hand_over, mover, records, rules, sessions, sweep
from bendybus.broker.departures import Departures
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.publish import Publication
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.transaction import Transaction
from bendybus.model.entity import QueueProperties
from bendybus.model.ids import Instant
from bendybus.model.operations import Answer
from bendybus.store.sql import readers, session_locks, transfers
from bendybus.store.sqlite.store import SqliteStore
from tests.history.faults import Fault, Patch, expect_found, replace_sql
from tests.history.test_forwarding_history import (
    ConventionalForwardingHistory,
    PartitionedForwardingHistory,
)
from tests.history.test_reader_history import (
    ConventionalReaderHistory,
    PartitionedReaderHistory,
)
from tests.history.test_session_history import (
    ConventionalSessionHistory,
    PartitionedSessionHistory,
)
from tests.history.test_set_aside_history import (
    ConventionalSetAsideHistory,
    PartitionedSetAsideHistory,
)
from tests.history.test_topic_history import ConventionalTopicHistory, PartitionedTopicHistory
from tests.history.test_transaction_history import (
    ConventionalTransactionHistory,
    PartitionedTransactionHistory,
)

pytestmark = pytest.mark.prove


def commit_what_is_left(patch: Patch) -> None:
    apply = SqliteStore.apply

    def leniently(
        self: SqliteStore, operations: Sequence[Any], *, now: Any, is_strict: bool = False
    ) -> "asyncio.Future[list[Answer]]":
        del is_strict
        return apply(self, operations, now=now)

    patch.setattr(SqliteStore, "apply", leniently)


def let_what_is_in_hand_expire(patch: Patch) -> None:
    replace_sql("due", "d.until >= expired.id", "0", patch)
    replace_sql("find_free_of_sessions", "d.until >= message.id", "0", patch)


def let_what_is_reserved_expire(patch: Patch) -> None:
    replace_sql("due", "INDEXED BY message_expiring", "", patch)
    replace_sql("due", "AND locked_until IS NULL AND state = 0\n", "AND state IN (0, 3)\n", patch)
    replace_sql("find_guarded", "NOT IN (3, 9)", "<> 9", patch)


def keep_rules_in_memory(patch: Patch) -> None:
    async def set_rules(_catalog: Any, subscription: Any, wanted: Any, _now: Any) -> None:
        subscription.change(replace(subscription.subscription, rules=wanted))

    patch.setattr(rules, "_set_rules", set_rules)


def choose_another_fragment_each_time(patch: Patch) -> None:
    numbers = count()

    def anywhere(_message: Any, _sequence: int, fragment_count: int, **_: Any) -> int:
        return next(numbers) % fragment_count

    patch.setattr(hand_over, "fragment_at", anywhere)


def take_on_only_what_comes(patch: Patch) -> None:
    def depart_by(self: ServedSubQueue, departures: Departures) -> None:
        self._departures = departures if self.is_left else None

    patch.setattr(ServedSubQueue, "depart_by", depart_by)


def remember_the_first_way(patch: Patch) -> None:
    set_properties = ServedQueue.set_properties

    def stubborn(self: ServedQueue, properties: QueueProperties) -> None:
        before = getattr(self, "properties", properties).forward_to
        if before is not None and properties.forward_to is not None:
            properties = replace(properties, forward_to=before)
        set_properties(self, properties)

    patch.setattr(ServedQueue, "set_properties", stubborn)


def clear_nothing(patch: Patch) -> None:
    async def leave(*_: object) -> None:
        return

    patch.setattr(records, "clear_arrived", leave)


def come_early(patch: Patch) -> None:
    replace_sql("due", "enqueued_at <= ?1", "enqueued_at <= ?1 + 3000", patch)
    replace_sql("find_guarded", "state = 2 AND enqueued_at <= ?4", "state = 2", patch)


def never_forget(patch: Patch) -> None:
    async def keep(*_: object) -> None:
        return

    patch.setattr(ServedQueue, "duplicates_since", lambda *_: Instant(0))
    patch.setattr(sweep, "forget_seen", keep)


SET_ASIDE: Final[dict[str, Fault]] = {
    "a deferred message stays active": Fault(
        partial(replace_sql, "defer_messages", "state = 1", "state = 0"),
        ConventionalSetAsideHistory,
    ),
    "a deferred message is locked twice": Fault(
        partial(replace_sql, "find_deferred", "AND locked_until IS NULL", ""),
        ConventionalSetAsideHistory,
    ),
    "a scheduled message comes early": Fault(come_early, ConventionalSetAsideHistory),
    "what is due together comes in any order": Fault(
        partial(replace_sql, "due", "ORDER BY enqueued_at, id", "ORDER BY id DESC"),
        ConventionalSetAsideHistory,
    ),
    "what has come can still be cancelled": Fault(
        partial(replace_sql, "find_guarded", "state = 2 AND enqueued_at > ?4", "1"),
        ConventionalSetAsideHistory,
    ),
    "duplicates are kept": Fault(
        lambda patch: patch.setattr(ServedQueue, "duplicates_since", lambda *_: None),
        ConventionalSetAsideHistory,
    ),
    "ids count for ever": Fault(never_forget, ConventionalSetAsideHistory),
    "ids are forgotten at a restart": Fault(
        partial(replace_sql, "logged_ids", "FROM seen", "FROM seen WHERE 0"),
        ConventionalSetAsideHistory,
    ),
    "a purge takes what is locked": Fault(
        partial(replace_sql, "find_purgeable", "AND locked_until IS NULL", ""),
        ConventionalSetAsideHistory,
    ),
    "a purge takes what is newer": Fault(
        partial(replace_sql, "find_purgeable", "enqueued_at <= ?5", "?5"),
        PartitionedSetAsideHistory,
    ),
}

SESSIONS: Final[dict[str, Fault]] = {
    "a session has two holders": Fault(
        partial(replace_sql, "accept_named_session", "WHERE nonce IS NULL", ""),
        ConventionalSessionHistory,
    ),
    "a lapsed session is given out before it is swept": Fault(
        partial(
            replace_sql,
            "accept_named_session",
            "WHERE nonce IS NULL",
            "WHERE nonce IS NULL OR locked_until <= ?5",
        ),
        ConventionalSessionHistory,
    ),
    "the newest of a session comes first": Fault(
        partial(replace_sql, "find_free_in_session", "ORDER BY id", "ORDER BY id DESC"),
        ConventionalSessionHistory,
    ),
    "messages outlive their session's lock": Fault(
        partial(replace_sql, "find_in_hand", "s.locked_until > ?4", "1"),
        ConventionalSessionHistory,
    ),
    "a session is not renewed": Fault(
        partial(
            replace_sql,
            "renew_session",
            "locked_until = ?5",
            "locked_until = locked_until + 0 * ?5",
        ),
        ConventionalSessionHistory,
    ),
    "anybody can set a state": Fault(
        partial(replace_sql, "set_session_state", "AND nonce = ?3 AND locked_until > ?4", ""),
        ConventionalSessionHistory,
    ),
    "a state goes with the last message": Fault(
        partial(replace_sql, "forget_ended_sessions", "AND state IS NULL", ""),
        ConventionalSessionHistory,
    ),
    "whoever was served last is next": Fault(
        partial(replace_sql, "end_sessions", "waiting_since = ?2", "waiting_since = 0 * ?2"),
        ConventionalSessionHistory,
    ),
    "one more than was given out counts as given out": Fault(
        partial(replace_sql, "note_delivered", "VALUES (?1, ?2)", "VALUES (?1, ?2 + 1)"),
        ConventionalSessionHistory,
    ),
    "what was given out is given out again": Fault(
        partial(replace_sql, "note_delivered", "SET until = ?2", "SET until = until + 0 * ?2"),
        ConventionalSessionHistory,
    ),
    "what came back to a session waits for the next holder": Fault(
        partial(replace_sql, "note_returned", "?3, NULL)", "NULL, NULL)"),
        PartitionedSessionHistory,
    ),
    "what was given out a second time is still free": Fault(
        lambda patch: patch.setattr(session_locks, "mark_of", lambda _: None),
        ConventionalSessionHistory,
    ),
    "the end of a session's lock is not counted": Fault(
        partial(replace_sql, "due", "m.id <= d.until", "0"),
        ConventionalSessionHistory,
    ),
    "a lapsed session is free before its messages": Fault(
        partial(replace_sql, "find_lapsed_sessions", "m.id <= d.until", "0"),
        PartitionedSessionHistory,
    ),
    "what is in hand expires": Fault(
        let_what_is_in_hand_expire,
        ConventionalSessionHistory,
    ),
    "a session of a closed queue is given out": Fault(
        lambda patch: patch.setattr(sessions, "check_status_for_receive", lambda *_: None),
        PartitionedSessionHistory,
    ),
    "released messages stay locked": Fault(
        partial(
            replace_sql,
            "free_messages_of_session",
            "WHERE locked_until",
            "WHERE 0 AND locked_until",
        ),
        PartitionedSessionHistory,
    ),
}

TOPICS: Final[dict[str, Fault]] = {
    "a content goes with its first holder": Fault(
        partial(replace_sql, "unheld_bodies", "WHERE ifnull(s.holders, 0) <= 0", ""),
        ConventionalTopicHistory,
    ),
    "a content outlives its holders": Fault(
        partial(replace_sql, "release_shared", "holders - 1", "holders"),
        PartitionedTopicHistory,
    ),
    "changed rules are forgotten at a restart": Fault(
        keep_rules_in_memory, ConventionalTopicHistory
    ),
    "a changed copy is left out": Fault(
        lambda patch: patch.setattr(Publication, "_change", lambda *_: None),
        ConventionalTopicHistory,
    ),
    "failed filters are not told": Fault(
        lambda patch: patch.setattr(Publication, "_note_failure", lambda *_: None),
        PartitionedTopicHistory,
    ),
    "bytes are counted for each subscription": Fault(
        partial(
            replace_sql,
            "reserve_at_topic",
            "message_bytes = message_bytes + ?3",
            "message_bytes = message_bytes + ?3 * 2",
        ),
        ConventionalTopicHistory,
    ),
}

FORWARDING: Final[dict[str, Fault]] = {
    "transfers are not remembered": Fault(
        lambda patch: patch.setattr(
            transfers, "remember", lambda _db, given, _now: list(range(len(given)))
        ),
        ConventionalForwardingHistory,
    ),
    "a repeated transfer goes elsewhere": Fault(
        choose_another_fragment_each_time, PartitionedForwardingHistory
    ),
    "hops are not counted": Fault(
        lambda patch: patch.setattr(hand_over, "why_no_further", lambda *_: None),
        ConventionalForwardingHistory,
    ),
    "what is held stays held after a restart": Fault(
        partial(replace_sql, "end_holds", "WHERE locked_until", "WHERE 0 AND locked_until"),
        ConventionalForwardingHistory,
    ),
    "messages are removed though they did not arrive": Fault(
        lambda patch: patch.setattr(mover.Mover, "_hand_over", pretend),
        PartitionedForwardingHistory,
    ),
    "what is there stays when its queue begins to forward": Fault(
        take_on_only_what_comes, ConventionalForwardingHistory
    ),
    "a queue forwards to where it did before": Fault(
        remember_the_first_way, PartitionedForwardingHistory
    ),
    "what has arrived goes another way as well": Fault(
        clear_nothing, ConventionalForwardingHistory
    ),
}


async def pretend(*_: object) -> bool:
    return True


TRANSACTIONS: Final[dict[str, Fault]] = {
    "a lost lock undoes nothing else": Fault(commit_what_is_left, ConventionalTransactionHistory),
    "a refused part is left out": Fault(
        lambda patch: patch.setattr(Transaction, "fail", lambda *_: None),
        PartitionedTransactionHistory,
    ),
    "a lost link rolls nothing back": Fault(
        lambda patch: patch.setattr(OpenTransactions, "roll_back", lambda *_: None),
        ConventionalTransactionHistory,
    ),
    "what is sent elsewhere goes twice": Fault(
        lambda patch: patch.setattr(
            transfers, "remember", lambda _db, given, _now: list(range(len(given)))
        ),
        ConventionalTransactionHistory,
    ),
}

READERS: Final[dict[str, Fault]] = {
    "the newest are reserved": Fault(
        partial(replace_sql, "find_reservable", "ORDER BY id", "ORDER BY id DESC"),
        ConventionalReaderHistory,
    ),
    "what is reserved can still be received": Fault(
        partial(replace_sql, "reserve_messages", "state = 3", "state = 0"),
        ConventionalReaderHistory,
    ),
    "who asks again is given more": Fault(
        partial(replace_sql, "reservations", "position > ?3", "position > ?3 + 1"),
        ConventionalReaderHistory,
    ),
    "what is given back is counted as delivered": Fault(
        partial(
            replace_sql,
            "free_reserved",
            "state = 0",
            "state = 0, delivery_count = 7",
        ),
        PartitionedReaderHistory,
    ),
    "what is reserved expires": Fault(
        let_what_is_reserved_expire,
        ConventionalReaderHistory,
    ),
    "what is committed stays": Fault(
        partial(replace_sql, "find_reserved", "nonce = ?1", "nonce = -?1"),
        PartitionedReaderHistory,
    ),
    "a reader has two users": Fault(
        lambda patch: patch.setattr(readers, "_check_free", lambda *_: None),
        ConventionalReaderHistory,
    ),
    "who was taken over goes on": Fault(
        partial(replace_sql, "open_reader", "SET token = ?3,", "SET"),
        PartitionedReaderHistory,
    ),
}

FAULTS: Final = SET_ASIDE | SESSIONS | TOPICS | FORWARDING | TRANSACTIONS | READERS


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_planted_fault_is_found_by_the_histories(fault: Fault, monkeypatch: Patch) -> None:
    expect_found(fault, monkeypatch)
