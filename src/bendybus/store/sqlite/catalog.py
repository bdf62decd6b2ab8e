"""The store's copy of the namespace's catalog, and the queues that it holds."""

import dataclasses
import json
from datetime import timedelta
from typing import Any

import apsw

from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import EntityExists
from bendybus.model.ids import EntityNumber, QueueNumber, StoreNumber, SubQueue
from bendybus.store.port import EntityRecord, FragmentPlace
from bendybus.store.sqlite.database import Database

_DURATIONS = frozenset(
    field.name for field in dataclasses.fields(QueueProperties) if "timedelta" in str(field.type)
)


def entities(database: Database) -> list[EntityRecord]:
    """Return every entity known here."""
    return [
        EntityRecord(EntityNumber(number), Queue(name, _properties(text)), version, _places(places))
        for number, name, version, text, places in database.rows("entities")
    ]


def put_entity(database: Database, store: int, record: EntityRecord) -> None:
    """Write an entity, and make the four queues of each of its fragments that live here.

    Raises `EntityExists` if its name, or a queue of its places, belongs to another.
    """
    try:
        _write_entity(database, store, record)
    except apsw.ConstraintError:
        raise EntityExists(
            f"Messaging store {store} holds another entity in place of '{record.queue.name}'."
        ) from None
    database.load_queues()


def _write_entity(database: Database, store: int, record: EntityRecord) -> None:
    text = json.dumps(_plain(record.queue.properties))
    places = json.dumps([(place.store, place.first_queue) for place in record.places])
    database.run("put_entity", (record.number, record.queue.name, record.version, text, places))
    for fragment, place in enumerate(record.places):
        if place.store == store:
            for sub_queue in SubQueue:
                number = place.queue(sub_queue)
                database.run("put_queue", (number, record.number, fragment, int(sub_queue)))


def _places(text: str) -> tuple[FragmentPlace, ...]:
    return tuple(
        FragmentPlace(StoreNumber(store), QueueNumber(first)) for store, first in json.loads(text)
    )


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
