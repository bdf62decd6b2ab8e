"""When entities were last used, by whichever front end: what none of them knows alone."""

import json
from collections.abc import Sequence

from bendybus.model.ids import EntityNumber, Instant
from bendybus.store.sql.database import SqlDatabase


def note_uses(database: SqlDatabase, entities: Sequence[EntityNumber], now: Instant) -> None:
    """Note that entities are in use now, unless they were later."""
    if entities:
        database.run("note_uses", (database.array(entities), now))


def uses(database: SqlDatabase) -> dict[EntityNumber, Instant]:
    """Return when entities were noted to be in use."""
    row = database.row("uses")
    assert row is not None, "an aggregate always has one row"
    return {EntityNumber(entity): Instant(used_at) for entity, used_at in json.loads(row[0])}
