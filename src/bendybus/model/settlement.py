"""What a settlement, or the end of a lock or of a time to live, means for a message."""

from dataclasses import dataclass, replace
from typing import Final, assert_never

from bendybus.model.errors import InvalidOperation
from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock, Marks
from bendybus.model.operations import (
    Activate,
    Guard,
    Move,
    Operation,
    Remove,
    Rewrite,
    SetAside,
    Unlock,
)
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release

DEAD_LETTER_TEXT_LENGTH_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """What the rules need to know of the queue that a message is in."""

    queue: QueueNumber
    entity_name: str
    # None in a dead-letter queue: nothing leads out of it but being completed.
    dead_letter_queue: QueueNumber | None
    delivery_count_max: int
    is_dead_lettered_on_expiry: bool


def operations_for(
    outcome: Outcome, lock: Lock, marks: Marks | None, policy: DeliveryPolicy
) -> list[Operation]:
    """Decide the writes that this settlement means.

    Deciding here, outside the store, is safe because of the lock: while it is valid nobody else
    may change the row, so the delivery count and marks in hand are the true ones. The store
    checks the lock again when it applies the operations.
    """
    match outcome:
        case Complete():
            return [Remove(policy.queue, [lock])]
        case Release():
            return [Unlock(policy.queue, [lock], is_counted=False)]
        case Abandon(changes):
            return _abandoned(lock, marks, changes, policy)
        case Defer(changes):
            return [*_rewritten(lock, marks, changes, policy), SetAside(policy.queue, [lock])]
        case DeadLetter(reason, description, changes):
            if policy.dead_letter_queue is None:
                raise InvalidOperation(
                    "A message in a dead-letter queue cannot be dead-lettered again."
                )
            return [
                _to_dead_letters(lock, _with_changes(marks, changes), policy, reason, description)
            ]
        case _:
            assert_never(outcome)


def operation_for_due(
    guard: Guard, lock: Lock, marks: Marks | None, policy: DeliveryPolicy
) -> Operation:
    """Decide what happens to a message whose lock, time to live or delay has ended."""
    if guard is Guard.DUE:
        return Activate(policy.queue, [lock.sequence])
    if guard is Guard.LAPSED:
        if _is_last_delivery(lock, policy):
            return _exhausted(lock, marks, policy, guard)
        return Unlock(policy.queue, [lock], is_counted=True, guard=guard)
    if policy.is_dead_lettered_on_expiry and policy.dead_letter_queue is not None:
        moved = _to_dead_letters(
            lock,
            marks,
            policy,
            "TTLExpiredException",
            "The message expired and was dead lettered.",
        )
        moved.guard = guard
        return moved
    return Remove(policy.queue, [lock], guard=guard)


def _abandoned(
    lock: Lock, marks: Marks | None, changes: bytes | None, policy: DeliveryPolicy
) -> list[Operation]:
    if _is_last_delivery(lock, policy):
        return [_exhausted(lock, _with_changes(marks, changes), policy, Guard.HELD)]
    unlock = Unlock(policy.queue, [lock], is_counted=True)
    return [*_rewritten(lock, marks, changes, policy), unlock]


def _rewritten(
    lock: Lock, marks: Marks | None, changes: bytes | None, policy: DeliveryPolicy
) -> list[Operation]:
    """Return the write that keeps a receiver's changes, if it made any."""
    changed = _with_changes(marks, changes)
    if not changes or changed is None:
        return []
    return [Rewrite(policy.queue, lock, changed)]


def _is_last_delivery(lock: Lock, policy: DeliveryPolicy) -> bool:
    return (
        policy.dead_letter_queue is not None
        and lock.delivery_count + 1 >= policy.delivery_count_max
    )


def _exhausted(lock: Lock, marks: Marks | None, policy: DeliveryPolicy, guard: Guard) -> Move:
    moved = _to_dead_letters(
        lock,
        marks,
        policy,
        "MaxDeliveryCountExceeded",
        f"Message could not be consumed after {policy.delivery_count_max} delivery attempts.",
    )
    moved.is_counted = True
    moved.guard = guard
    return moved


def _to_dead_letters(
    lock: Lock,
    marks: Marks | None,
    policy: DeliveryPolicy,
    reason: str | None,
    description: str | None,
) -> Move:
    assert policy.dead_letter_queue is not None
    return Move(
        policy.queue,
        policy.dead_letter_queue,
        lock,
        replace(
            marks or Marks(),
            dead_letter_reason=_shortened(reason),
            dead_letter_description=_shortened(description),
            dead_letter_source=policy.entity_name,
        ),
        is_counted=False,
    )


def _with_changes(marks: Marks | None, changes: bytes | None) -> Marks | None:
    """Add property changes behind earlier ones: they are encoded such that later ones win."""
    if not changes:
        return marks
    before = marks or Marks()
    return replace(before, property_changes=(before.property_changes or b"") + changes)


def _shortened(text: str | None) -> str | None:
    return text[:DEAD_LETTER_TEXT_LENGTH_MAX] if text is not None else None
