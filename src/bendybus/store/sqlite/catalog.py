"""The store's copy of the namespace's catalog, and the queues that it holds."""

import json
from collections.abc import Iterator

import apsw

from bendybus.model.errors import EntityExists, EntityNotFound
from bendybus.model.ids import EntityNumber, QueueNumber, StoreNumber, SubQueue
from bendybus.store.entity_text import entity_from_text, entity_to_text, kind_of_entity
from bendybus.store.port import EntityRecord, FragmentPlace, ParentTopic
from bendybus.store.sqlite.database import Database


def entities(database: Database) -> list[EntityRecord]:
    """Return every entity known here."""
    rows = database.rows("entities")
    names = {number: name for number, name, *_ in rows}
    records: list[EntityRecord] = []
    for number, path, kind, topic, version, text, places in rows:
        parent = None if topic is None else ParentTopic(EntityNumber(topic), names[topic])
        name = path if parent is None else path.rpartition("/")[2]
        entity = entity_from_text(kind, name, text)
        record = EntityRecord(EntityNumber(number), entity, version, _places(places), parent)
        records.append(record)
    return records


def put_entity(database: Database, store: int, record: EntityRecord) -> None:
    """Write an entity, and make the four queues of each of its fragments that live here.

    Raises `EntityExists` if its name, or a queue of its places, belongs to another, and
    `EntityNotFound` if it is a subscription of a topic that is not here.
    """
    try:
        _write_entity(database, store, record)
    except apsw.ConstraintError:
        raise EntityExists(
            f"Messaging store {store} holds another entity in place of '{record.name}'."
        ) from None
    topic = None if record.topic is None else record.topic.number
    for fragment, sub_queue, number in _queues_here(store, record):
        database.note_queue(number, topic, record.number, fragment, sub_queue)


def _write_entity(database: Database, store: int, record: EntityRecord) -> None:
    text = entity_to_text(record.entity)
    places = json.dumps([(place.store, place.first_queue) for place in record.places])
    kind = kind_of_entity(record.entity)
    topic = None if record.topic is None else record.topic.number
    database.run(
        "put_entity", (record.number, record.name, kind, topic, record.version, text, places)
    )
    for fragment, sub_queue, number in _queues_here(store, record):
        if topic is not None and not database.holds(topic, fragment):
            raise EntityNotFound(
                f"Messaging store {store} does not hold the topic of '{record.name}'."
            )
        database.run("put_queue", (number, record.number, fragment, int(sub_queue)))


def _queues_here(store: int, record: EntityRecord) -> Iterator[tuple[int, SubQueue, QueueNumber]]:
    """Yield fragment, sub-queue and number of every queue of the entity that lives here."""
    for fragment, place in enumerate(record.places):
        if place.store == store:
            for sub_queue in SubQueue:
                yield fragment, sub_queue, place.queue(sub_queue)


def _places(text: str) -> tuple[FragmentPlace, ...]:
    return tuple(
        FragmentPlace(StoreNumber(store), QueueNumber(first)) for store, first in json.loads(text)
    )
