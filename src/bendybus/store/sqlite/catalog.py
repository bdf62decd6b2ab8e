"""The store's copy of the namespace's catalog, and the queues that it holds."""

import dataclasses
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.ids import EntityNumber, FragmentIndex, QueueNumber, SubQueue
from bendybus.store.port import EntityRecord, HeldQueue
from bendybus.store.sqlite.database import Database

_DURATIONS = frozenset(
    field.name for field in dataclasses.fields(QueueProperties) if "timedelta" in str(field.type)
)


def entities(database: Database) -> list[EntityRecord]:
    """Return every entity known here."""
    return [
        EntityRecord(EntityNumber(number), Queue(name, _properties(text)), version)
        for number, name, version, text in database.rows("entities")
    ]


def queues(database: Database) -> list[HeldQueue]:
    """Return every queue held here."""
    return [
        HeldQueue(
            QueueNumber(number), EntityNumber(entity), FragmentIndex(fragment), SubQueue(sub_queue)
        )
        for number, entity, fragment, sub_queue in database.rows("queues")
    ]


def put_entity(
    database: Database, record: EntityRecord, fragments: Sequence[FragmentIndex]
) -> list[HeldQueue]:
    """Write an entity, and make the three queues of each of its fragments that live here."""
    text = json.dumps(_plain(record.queue.properties))
    database.run("put_entity", (record.number, record.queue.name, record.version, text))
    for fragment in fragments:
        for sub_queue in SubQueue:
            database.run("put_queue", (record.number, fragment, int(sub_queue)))
    database.load_queues()
    return [held for held in queues(database) if held.entity == record.number]


def _plain(properties: QueueProperties) -> dict[str, Any]:
    fields = dataclasses.asdict(properties)
    fields["status"] = properties.status.value
    for name in _DURATIONS:
        if fields[name] is not None:
            fields[name] = fields[name] / timedelta(milliseconds=1)
    return fields


def _properties(text: str) -> QueueProperties:
    fields = json.loads(text)
    fields["status"] = EntityStatus(fields["status"])
    for name in _DURATIONS:
        if fields[name] is not None:
            fields[name] = timedelta(milliseconds=fields[name])
    return QueueProperties(**fields)
