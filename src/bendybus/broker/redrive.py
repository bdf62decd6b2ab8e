"""redrive: dead letters are tried again, where they were or elsewhere (R8.2).

A message leaves the dead letters in the commit by which it comes to where it goes, or into the
transfer queue that takes it there. So whoever asks again after an answer was lost, or after a
crash, moves the rest and nothing twice.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.look import Stretch, look, source_of
from bendybus.broker.redrive_route import MaySend, Refused, Route
from bendybus.broker.served_queue import ServedSubQueue, Source
from bendybus.model.errors import InvalidOperation, MessageLockLost
from bendybus.model.given_edit import GivenEdit
from bendybus.model.ids import Instant, SubQueue
from bendybus.model.message import Lock, Marks, Message, StoredMessage
from bendybus.model.operations import Append, Guard, Operation, Remove, Requeue, Requeued
from bendybus.model.partitioning import check_keys
from bendybus.model.redrive import expiry_of_redriven, fragment_of_edited, marks_of_redriven
from bendybus.model.rule_actions import CompiledAction
from bendybus.model.selection import Selection
from bendybus.model.sql_values import FilterFailed
from bendybus.model.stored_view import view_of

# How many messages are planned for before others get their turn.
_PLANNED_TOGETHER: Final = 100


@dataclass(frozen=True, slots=True)
class RedriveWish:
    """Which dead letters, how they are to be changed on the way, and where they go.

    `to` is another entity. `is_to_source`: each goes to the entity that it became a dead letter
    of, which is another one if dead letters are forwarded. Otherwise they go back.
    """

    stretch: Stretch
    selection: Selection
    edit: CompiledAction | None = None
    # How each is to be changed, by its number; in place of one edit for all.
    edits: Mapping[int, GivenEdit] | None = None
    to: str | None = None
    is_to_source: bool = False
    is_dry_run: bool = False

    def edit_of(self, stored: StoredMessage) -> CompiledAction | GivenEdit | None:
        """Return how a message is to be changed; None: not at all."""
        return self.edit if self.edits is None else self.edits.get(stored.sequence)


class Redriven(NamedTuple):
    """How many were moved, or would be, and how many not; and where to go on, None at the end.

    `why` says of the first that was refused what was wrong with it.
    """

    moved: int
    looked_at: int
    locked: int
    refused: int
    why: str | None
    next_sequence: int | None


class _Edited(NamedTuple):
    """A message that is changed on its way, and the queue beside its own that it goes to."""

    lock: Lock
    message: Message
    sub_queue: SubQueue


@dataclass(slots=True)
class _Plan:
    """What is to be written for the messages that were chosen."""

    requeued: dict[SubQueue, list[Requeued]] = field(default_factory=dict)
    edited: list[_Edited] = field(default_factory=list)
    refused: int = 0
    why: str | None = None
    soonest: Instant | None = None

    @property
    def count(self) -> int:
        return sum(map(len, self.requeued.values())) + len(self.edited)

    def note_expiry(self, instant: Instant | None) -> None:
        if instant is not None and (self.soonest is None or instant < self.soonest):
            self.soonest = instant


async def redrive(
    sub_queue: ServedSubQueue, wish: RedriveWish, catalog: Catalog, clock: Clock, may_send: MaySend
) -> Redriven:
    """Move the next dead letters of a stretch; durable on return.

    Those that somebody holds stay, and so do those that cannot go where they are to.
    """
    route = Route(sub_queue, wish.to, catalog, may_send, is_to_source=wish.is_to_source)
    source = source_of(sub_queue, wish.stretch)
    found = await look(source, wish.stretch, wish.selection, catalog.reader)
    now = clock.now()
    plan = _Plan()
    planning = _Planning(sub_queue, source, route, catalog, now)
    for at, stored in enumerate(found.chosen):
        if at % _PLANNED_TOGETHER == _PLANNED_TOGETHER - 1:
            await asyncio.sleep(0)
        try:
            planning.add(plan, stored, wish.edit_of(stored))
        except Refused as refusal:
            plan.refused += 1
            plan.why = plan.why or f"message {stored.sequence}: {refusal}"
    lost = 0
    if not wish.is_dry_run and plan.count:
        lost = await _write(sub_queue, source, plan, now)
    return Redriven(
        plan.count - lost,
        found.looked_at,
        found.locked + lost,
        plan.refused,
        plan.why,
        found.next_sequence,
    )


class _Planning:
    """Decides what is to be written for one message after the other."""

    def __init__(
        self,
        sub_queue: ServedSubQueue,
        source: Source,
        route: Route,
        catalog: Catalog,
        now: Instant,
    ) -> None:
        self._queue = sub_queue.queue
        self._source = source
        self._route = route
        self._reader = catalog.reader
        self._now = now

    def add(
        self, plan: _Plan, stored: StoredMessage, edit: CompiledAction | GivenEdit | None
    ) -> None:
        """Add a message. Raises `Refused` if it cannot go."""
        # A dead letter knows its end no more; its header does.
        own_ms = self._reader.time_to_live(stored.content)
        if edit is not None:
            self._add_edited(plan, stored, edit, own_ms)
            return
        destination = self._route.destination(stored)
        is_own = destination is None
        default_ms = self._queue.time_to_live_ms if is_own else None
        expires_at = expiry_of_redriven(own_ms, default_ms, self._now)
        plan.note_expiry(expires_at)
        lock = Lock(stored.sequence, 0, stored.delivery_count)
        requeued = Requeued(lock, marks_of_redriven(stored, destination), expires_at)
        kind = SubQueue.MAIN if is_own else SubQueue.TRANSFER
        plan.requeued.setdefault(kind, []).append(requeued)

    def _add_edited(
        self,
        plan: _Plan,
        stored: StoredMessage,
        edit: CompiledAction | GivenEdit,
        own_ms: int | None,
    ) -> None:
        queue = self._queue
        message = Message(
            stored.content,
            "",
            stored.session_id,
            stored.partition_key,
            own_ms,
            marks=marks_of_redriven(stored),
        )
        try:
            changes = edit.apply(view_of(stored, self._reader))
            edited = self._reader.changed(message, changes)
            check_keys(edited)
        except (FilterFailed, InvalidOperation) as error:
            raise Refused(str(error)) from error
        as_stored = stored._replace(
            content=edited.content,
            session_id=edited.session_id,
            partition_key=edited.partition_key,
        )
        destination = self._route.destination(as_stored)
        if destination is None and queue.is_partitioned:
            fragment = fragment_of_edited(
                edited,
                changes,
                len(queue.main.sources),
                has_duplicate_detection=queue.properties.requires_duplicate_detection,
            )
            if fragment not in (None, self._source.fragment):
                # It belongs to another store now, and goes there as it would to another entity.
                destination = queue.name
        is_own = destination is None
        edited.marks = None if is_own else Marks(destination=destination)
        default_ms = queue.time_to_live_ms if is_own else None
        edited.expires_at = expiry_of_redriven(own_ms, default_ms, self._now)
        plan.note_expiry(edited.expires_at)
        lock = Lock(stored.sequence, 0, stored.delivery_count)
        kind = SubQueue.MAIN if is_own else SubQueue.TRANSFER
        plan.edited.append(_Edited(lock, edited, kind))


async def _write(sub_queue: ServedSubQueue, source: Source, plan: _Plan, now: Instant) -> int:
    """Write what was planned; return how many messages somebody touched meanwhile."""
    queue = sub_queue.queue
    if plan.soonest is not None:
        source.timetable.note(plan.soonest)
    try:
        lost = 0
        if plan.edited:
            lost = await _write_edited(sub_queue, source, plan.edited, now)
        operations: list[Operation] = [
            Requeue(source.number, _beside(sub_queue, source, kind).number, messages)
            for kind, messages in plan.requeued.items()
        ]
        answers = await source.store.apply(operations, now=now) if operations else []
        return lost + sum(len(each) for each in answers if isinstance(each, list))
    finally:
        # Also when this was cut off: what was begun may be written all the same.
        counts = {kind: len(messages) for kind, messages in plan.requeued.items()}
        for each in plan.edited:
            counts[each.sub_queue] = counts.get(each.sub_queue, 0) + 1
        for kind, count in counts.items():
            queue.sub_queues[kind].note_added(_beside(sub_queue, source, kind), count)


async def _write_edited(
    sub_queue: ServedSubQueue, source: Source, edited: Sequence[_Edited], now: Instant
) -> int:
    """Put edited messages in the place of the old ones: all at once, or else each by itself."""
    store = source.store
    try:
        await store.apply(_replacing(sub_queue, source, edited), now=now, is_strict=True)
    except MessageLockLost:
        lost = 0
        for each in edited:
            try:
                await store.apply(_replacing(sub_queue, source, [each]), now=now, is_strict=True)
            except MessageLockLost:
                lost += 1
        return lost
    return 0


def _replacing(
    sub_queue: ServedSubQueue, source: Source, edited: Sequence[_Edited]
) -> list[Operation]:
    """Say what puts edited messages in the place of the old ones. First out: it makes room."""
    locks = [each.lock for each in edited]
    operations: list[Operation] = [Remove(source.number, locks, Guard.UNTOUCHED)]
    for kind in (SubQueue.MAIN, SubQueue.TRANSFER):
        messages = [each.message for each in edited if each.sub_queue is kind]
        if messages:
            number = _beside(sub_queue, source, kind).number
            operations.append(Append(number, messages, sub_queue.queue.fragment_bytes_max))
    return operations


def _beside(sub_queue: ServedSubQueue, source: Source, kind: SubQueue) -> Source:
    return sub_queue.queue.sub_queues[kind].sources[source.fragment]
