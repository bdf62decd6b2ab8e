"""The store's copy of the namespace's catalog, and the queues that it holds."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bendybus.model.entity import Queue, Subscription
from bendybus.model.errors import EntityExists, EntityNotFound, ServerBusy
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, StoreNumber, SubQueue
from bendybus.model.operations import ForgetSeen
from bendybus.store.entity_text import (
    entity_from_text,
    entity_to_text,
    kind_of_entity,
    rules_from_text,
    rules_to_text,
)
from bendybus.store.port import REMOVED, EntityRecord, FragmentPlace, NumbersGiven, ParentTopic
from bendybus.store.sql import packs, staging
from bendybus.store.sql.database import SqlDatabase, rows_of_queue
from bendybus.store.sql.seen import forget
from bendybus.store.sql.settling import Found, delete
from bendybus.store.sql.unfolding import unfold_oldest

_OVERTAKEN: Final = "Another front end has changed the catalog of messaging store"
# A row of the table `entity`.
Row = tuple[Any, ...]


def entities(database: SqlDatabase) -> list[EntityRecord]:
    """Return every entity known here."""
    rows = database.rows("entities")
    return _records(rows, rows)


def versions(database: SqlDatabase) -> dict[EntityNumber, int]:
    """Return the version of every entity known here."""
    row = database.row("versions")
    assert row is not None, "an aggregate always has one row"
    return {EntityNumber(number): version for number, version in json.loads(row[0])}


def prepare(database: SqlDatabase, store: int, records: Sequence[EntityRecord]) -> None:
    """Note what is about to be put in place of what was noted before; raises as `put_entities`.

    Others who share the store may have had the turn since these were made of what was read: then
    they are refused, or of two changes of the same version each store could have another.
    """
    if records and database.is_shared:
        known = versions(database)
        is_behind = any(known.get(record.number, 0) >= record.version for record in records)
        if is_behind or database.rows("prepared"):
            raise ServerBusy(f"{_OVERTAKEN} {store}; try again.")
    database.execute("SAVEPOINT trial")
    try:
        for record in records:
            _write_entity(database, store, record)
    finally:
        database.execute("ROLLBACK TO trial")
        database.execute("RELEASE trial")
    database.run("forget_prepared")
    for record in records:
        database.run("prepare", (record.number, _encoded(record).text))


def prepared(database: SqlDatabase) -> list[EntityRecord]:
    """Return what is about to be put."""
    rows = [tuple(json.loads(text)) for _, text in database.rows("prepared")]
    return _records(rows, [*database.rows("entities"), *rows] if rows else [])


def _records(rows: Sequence[Row], known: Sequence[Row]) -> list[EntityRecord]:
    """Read rows; the known ones have the names of topics."""
    names = {number: name for number, _, name, *_ in known}
    records: list[EntityRecord] = []
    for number, namespace, path, kind, topic, version, text, declared, places, *rest in rows:
        is_removed, created_at, updated_at = rest
        parent = None
        if topic is not None:
            parent = ParentTopic(EntityNumber(topic), names[topic].partition(REMOVED)[0])
        name = path.partition(REMOVED)[0]
        if parent is not None:
            name = name.rpartition("/")[2]
        records.append(
            EntityRecord(
                EntityNumber(number),
                entity_from_text(kind, name, text),
                version,
                _places(places),
                parent,
                None if declared is None else rules_from_text(declared),
                is_removed=bool(is_removed),
                created_at=Instant(created_at),
                updated_at=Instant(updated_at),
                namespace=namespace,
            )
        )
    return records


class _Encoded(NamedTuple):
    """A record, and how it is written."""

    record: EntityRecord
    row: Row
    text: str


# What was encoded lately. Every store is told of the same records, twice: to encode them for each
# would be most of what creating an entity costs. Any thread may find, add or drop one.
_LATELY: Final[dict[int, _Encoded]] = {}
ENCODED_MAX: Final = 4000


def _encoded(record: EntityRecord) -> _Encoded:
    known = _LATELY.get(id(record))
    if known is not None and known.record is record:
        return known
    if len(_LATELY) >= ENCODED_MAX:
        _LATELY.clear()
    row = _row(record)
    encoded = _LATELY[id(record)] = _Encoded(record, row, json.dumps(row))
    return encoded


def _row(record: EntityRecord) -> Row:
    return (
        record.number,
        record.namespace,
        record.name,
        kind_of_entity(record.entity),
        None if record.topic is None else record.topic.number,
        record.version,
        entity_to_text(record.entity),
        None if record.declared_rules is None else rules_to_text(record.declared_rules),
        json.dumps([(place.store, place.first_queue) for place in record.places]),
        int(record.is_removed),
        record.created_at,
        record.updated_at,
    )


def numbers_given(database: SqlDatabase) -> NumbersGiven:
    """Return the highest numbers ever given."""
    row = database.row("numbers_given")
    assert row is not None, "an aggregate always has one row"
    return NumbersGiven(*row)


def remove_entity(database: SqlDatabase, number: EntityNumber, count_max: int) -> bool:
    """Delete so many of its messages, sessions, stages, known ids; say whether it is gone."""
    found = database.row("queues_of_entity", (number,))
    assert found is not None, "an aggregate always has one row"
    queues: list[int] = json.loads(found[0])
    if any(_remove_some(database, queue, count_max) for queue in queues):
        return False
    database.run("remove_access", (number,))
    database.run("remove_queues", (number,))
    database.run("remove_entity", (number,))
    database.run("forget_use", (number,))
    database.forget_queues(number, queues)
    database.note_catalog_changed()
    return True


def _remove_some(database: SqlDatabase, queue: int, count_max: int) -> bool:
    """Delete what a queue has, up to a bound; say whether there was any."""
    if packs.remove_some(database, queue):
        return True
    unfold_oldest(database, queue, count_max, Instant(0))
    found = database.row("find_any", (*rows_of_queue(queue), count_max))
    assert found is not None, "an aggregate always has one row"
    ids: list[int] = json.loads(found[0])
    if ids:
        delete(database, queue, Found(ids, json.loads(found[1]), int(found[2]), [], 0))
        return True
    has_sessions = database.row("has_sessions", (queue,))
    assert has_sessions is not None, "a row of one value, always"
    if has_sessions[0]:
        database.run("remove_deliveries", (queue, count_max))
        database.run("remove_sessions", (queue, count_max))
        return True
    if staging.remove_some(database, queue):
        return True
    database.run("remove_readers", (queue,))
    database.run("remove_reservations", (queue,))
    oldest = ForgetSeen(QueueNumber(queue), Instant(2**62))
    return forget(database, oldest, Instant(0)) > 0


def put_entities(
    database: SqlDatabase,
    store: int,
    records: Sequence[EntityRecord],
    *,
    is_prepared: bool = False,
) -> None:
    """Write entities, and make the four queues of each of their fragments that live here.

    Raises `EntityExists` if a name, or a queue of its places, belongs to another, `EntityNotFound`
    for a subscription of a topic that is not here, and `ServerBusy` if they are said to be prepared
    and are not: somebody else has prepared something since, or put it.
    """
    if is_prepared:
        noted = dict(database.rows("prepared"))
        if noted != {record.number: _encoded(record).text for record in records}:
            raise ServerBusy(f"{_OVERTAKEN} {store}; try again.")
    for record in records:
        _write_entity(database, store, record)
    database.run("forget_prepared")
    database.note_catalog_changed()
    for record in records:
        topic = None if record.topic is None else record.topic.number
        requires_session = (
            isinstance(record.entity, Queue | Subscription)
            and record.entity.properties.requires_session
        )
        for fragment, sub_queue, number in _queues_here(store, record):
            database.note_queue(number, topic, record.number, fragment, sub_queue, requires_session)


def _write_entity(database: SqlDatabase, store: int, record: EntityRecord) -> None:
    try:
        database.run("put_entity", _encoded(record).row)
        for fragment, sub_queue, number in _queues_here(store, record):
            database.run("put_queue", (number, record.number, fragment, int(sub_queue)))
    except database.conflict:
        raise EntityExists(
            f"Messaging store {store} holds another entity in place of '{record.name}'."
        ) from None
    if record.topic is not None:
        beside = database.row("missing_beside", (record.number, record.topic.number))
        assert beside is not None, "an aggregate always has one row"
        if beside[0]:
            raise EntityNotFound(
                f"Messaging store {store} does not hold the topic of '{record.name}'."
            )


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
