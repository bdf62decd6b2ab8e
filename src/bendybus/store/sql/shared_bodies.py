"""Contents that the messages of several subscriptions share: who still holds them.

The bytes of such a content are counted once, on the topic's queue, and are free again when the
last message that holds it goes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from bendybus.store.sql.database import SqlDatabase


def share(database: SqlDatabase, holders: Iterable[tuple[int, int]]) -> None:
    """Note how many messages hold each of some new bodies. One that only one holds needs none."""
    shared = [(body, count) for body, count in holders if count > 1]
    if shared:
        database.run("share_bodies", (json.dumps(shared),))


def release(
    database: SqlDatabase, rows: Sequence[int], bodies: Sequence[int]
) -> tuple[Sequence[int], int]:
    """Let messages that are about to go no longer hold their bodies.

    Returns the bodies that nobody holds any more, and their size.
    """
    # Mostly every body once: only a dead-letter queue can hold two copies of one message.
    held = Counter(bodies)
    while held:
        database.run("release_shared", (database.array(held),))
        held = Counter({body: count - 1 for body, count in held.items() if count > 1})
    found = database.row("unheld_bodies", (database.array(rows),))
    assert found is not None, "an aggregate always has one row"
    bodies_text, sizes_text = found
    sizes = dict(zip(json.loads(bodies_text), json.loads(sizes_text), strict=True))
    if sizes:
        database.run("forget_shared", (database.array(sizes),))
    return list(sizes), sum(sizes.values())
