"""Faults planted in the life of entities: a history that does not find them proves nothing."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from bendybus.broker import create, receive, removal, send
from bendybus.broker.records import Records
from bendybus.broker.removal import Removal
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedSubscription
from bendybus.model.entity import QueueProperties
from bendybus.store.port import REMOVED, EntityRecord
from tests.history.faults import Fault, Patch, expect_found, replace_sql
from tests.history.test_life_history import ConventionalLifeHistory, PartitionedLifeHistory

pytestmark = pytest.mark.prove


def do_nothing(*_: object, **__: object) -> None:
    """Leave out what ought to be done."""


def keep_changes_in_memory(patch: Patch) -> None:
    write = Records.write

    async def forget(self: Records, records: Sequence[EntityRecord]) -> None:
        if any(record.version == 1 or record.is_removed for record in records):
            await write(self, records)
        for record in records:
            self._take_over(record)

    patch.setattr(Records, "write", forget)


def take_back_what_was_deleted(patch: Patch) -> None:
    """Let who creates an entity have the last one of that name, if the stores still hold it."""
    write = Records.write

    async def again(self: Records, records: Sequence[EntityRecord]) -> None:
        retired = {record.name.partition(REMOVED)[0]: record for record in self.retired()}
        await write(
            self,
            [
                replace(retired[each.name], entity=each.entity, is_removed=False, version=1_000)
                if each.version == 1 and each.name in retired
                else each
                for each in records
            ],
        )

    patch.setattr(Records, "write", again)


def keep_the_first(attribute: str, patch: Patch) -> None:
    """Let what a property means stay as it was when the entity was first served."""
    set_properties = ServedQueue.set_properties

    def half(self: ServedQueue, properties: QueueProperties) -> None:
        first = getattr(self, attribute, None)
        set_properties(self, properties)
        if first is not None:
            setattr(self, attribute, first)

    patch.setattr(ServedQueue, "set_properties", half)


def leave_the_topic_alone(patch: Patch) -> None:
    for name in ("note_use", "note_link", "note_link_gone"):
        patch.setattr(ServedSubscription, name, getattr(ServedQueue, name))


def change_though_refused(patch: Patch) -> None:
    """Serve what was asked for before it is known whether that can be."""
    check = create.check_targets

    def hasty(catalog: Any, entity: Any) -> None:
        check(catalog, entity)
        if catalog.has(entity.name):
            served = catalog.queue(entity.name)
            served.set_properties(replace(served.properties, status=entity.properties.status))

    patch.setattr("bendybus.broker.update.check_targets", hasty)
    patch.setattr(
        "bendybus.broker.update.check_fixed_unchanged",
        do_nothing,
    )


def allow(part: float, patch: Patch) -> None:
    """Let entities be idle for a part of what they say, or for more."""
    allowed_ms = removal._allowed_ms
    patch.setattr(removal, "_allowed_ms", lambda queue: allowed_ms(queue) * part)


async def retire_whatever_it_holds(_removal: Removal, idle: Any) -> Any:
    return idle


FAULTS: Final[dict[str, Fault]] = {
    # Status
    "a disabled queue still gives": Fault(
        lambda patch: patch.setattr(receive, "check_status_for_receive", do_nothing),
        ConventionalLifeHistory,
    ),
    "a queue that is closed for sending still takes": Fault(
        lambda patch: patch.setattr(send, "check_open_for_send", do_nothing),
        ConventionalLifeHistory,
    ),
    "what waits at a topic is lost if it is closed": Fault(
        lambda patch: patch.setattr(
            ServedSubscription,
            "takes_messages",
            property(
                lambda self: self.properties.status.allows_send,
                lambda *_: None,
            ),
            raising=False,
        ),
        ConventionalLifeHistory,
    ),
    "a link is not told": Fault(
        lambda patch: patch.setattr(ServedQueue, "tell_links", do_nothing),
        PartitionedLifeHistory,
    ),
    # Properties
    "an update is forgotten at a restart": Fault(keep_changes_in_memory, ConventionalLifeHistory),
    "a lock lasts as long as it did": Fault(
        partial(keep_the_first, "lock_duration_ms"), ConventionalLifeHistory
    ),
    "messages live as long as they did": Fault(
        partial(keep_the_first, "time_to_live_ms"), PartitionedLifeHistory
    ),
    "what is chosen at creation can be changed": Fault(
        change_though_refused, ConventionalLifeHistory
    ),
    # Going when idle
    "an idle entity goes too early": Fault(partial(allow, 0.98), PartitionedLifeHistory),
    "an idle entity goes too late": Fault(partial(allow, 1.05), ConventionalLifeHistory),
    "a link is no use": Fault(
        lambda patch: patch.setattr(ServedQueue, "is_used", False), ConventionalLifeHistory
    ),
    "what is used is as idle as before": Fault(
        lambda patch: patch.setattr(ServedQueue, "note_use", do_nothing), ConventionalLifeHistory
    ),
    "who uses a subscription does not use its topic": Fault(
        leave_the_topic_alone, ConventionalLifeHistory
    ),
    "an entity goes with what waits in it for its time": Fault(
        lambda patch: patch.setattr(Removal, "_without_scheduled", retire_whatever_it_holds),
        PartitionedLifeHistory,
    ),
    # Coming again
    "a new queue of the name has the old messages": Fault(
        take_back_what_was_deleted, ConventionalLifeHistory
    ),
    "what a deleted subscription held stays": Fault(
        partial(replace_sql, "release_shared", "holders - 1", "holders"),
        ConventionalLifeHistory,
    ),
    "what was deleted is back after a restart": Fault(
        lambda patch: patch.setattr(
            Records,
            "write",
            write_all_but_removals(Records.write),
        ),
        PartitionedLifeHistory,
    ),
}


def write_all_but_removals(write: Any) -> Any:
    async def forgetful(self: Records, records: Sequence[EntityRecord]) -> None:
        if any(record.is_removed for record in records):
            for record in records:
                self._take_over(record)
            return
        await write(self, records)

    return forgetful


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_planted_fault_is_found_by_the_histories(fault: Fault, monkeypatch: Patch) -> None:
    expect_found(fault, monkeypatch)
