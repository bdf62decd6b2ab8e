"""Counts what queues hold, by state, without looking at their messages one by one."""

import json
from collections.abc import Sequence

from bendybus.model.ids import QueueNumber
from bendybus.store.port import Tally
from bendybus.store.sqlite.database import COUNTER_BITS_HERE, Database, ids_array


def tallies(database: Database, queues: Sequence[QueueNumber] | None) -> dict[QueueNumber, Tally]:
    """Count what these queues hold, or all that are here."""
    if queues is None:
        row = database.row("tally_all", (COUNTER_BITS_HERE,))
    elif queues:
        row = database.row("tally_some", (COUNTER_BITS_HERE, ids_array(queues)))
    else:
        return {}
    assert row is not None, "an aggregate always has one row"
    return {QueueNumber(number): Tally(*rest) for number, *rest in json.loads(row[0])}
