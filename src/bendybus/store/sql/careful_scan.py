"""Scans a few messages inside the lane, where damaged ones can be set aside.

For the stretches that `scanning` finds something wrong with.
"""

import json
from array import array
from collections.abc import Sequence
from typing import Final

from bendybus.model.message import StoredMessage
from bendybus.model.scanned import NO_INSTANT, Scanned, Slices
from bendybus.store.scan import Scan
from bendybus.store.sql import reading
from bendybus.store.sql.database import SqlDatabase

MESSAGES_MAX: Final = 500


def scan_carefully(database: SqlDatabase, request: Scan) -> Scanned:
    """Read the next messages one by one; see `MessageStore.scan`."""
    limits = min(request.count_max, MESSAGES_MAX), request.bytes_max
    start = request.from_sequence
    if request.reservation is not None:
        found = reading.read_reserved(
            database, request.queue, request.reservation, max(start, 0), limits
        )
    else:
        found = reading.browse(database, request.queue, start, limits)
    within = [each for each in found if each.sequence < request.until_sequence]
    if not within:
        return scanned_of([], None, has_contents=request.has_contents)
    after = within[-1].sequence + 1
    following = after if len(within) == len(found) and after < request.until_sequence else None
    if request.is_choosy:
        offset = database.offset(request.queue)
        row = database.row(
            "chosen_ids", (within[0].sequence + offset, after + offset, *request.choice)
        )
        assert row is not None, "an aggregate always has one row"
        chosen = set(json.loads(row[0]))
        within = [each for each in within if each.sequence + offset in chosen]
    return scanned_of(within, following, has_contents=request.has_contents)


def scanned_of(
    messages: Sequence[StoredMessage], next_sequence: int | None, *, has_contents: bool
) -> Scanned:
    """Put messages side by side."""
    return Scanned(
        count=len(messages),
        next_sequence=next_sequence,
        sequences=_numbers([each.sequence for each in messages]),
        enqueued_at=_numbers([each.enqueued_at for each in messages]),
        delivery_counts=_numbers([each.delivery_count for each in messages]),
        states=_numbers([each.state for each in messages]),
        expires_at=_numbers(
            [NO_INSTANT if each.expires_at is None else each.expires_at for each in messages]
        ),
        session_ids=_slices([_encoded(each.session_id) for each in messages]),
        partition_keys=_slices([_encoded(each.partition_key) for each in messages]),
        marks=[each.marks for each in messages],
        contents=_slices([each.content for each in messages]) if has_contents else None,
    )


def _numbers(values: Sequence[int]) -> memoryview:
    return memoryview(array("q", values))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "replace")


def _slices(values: Sequence[bytes | None]) -> Slices:
    starts, ends = array("q"), array("q")
    at = 0
    for value in values:
        starts.append(-1 if value is None else at)
        at += len(value or b"")
        ends.append(-1 if value is None else at)
    joined = b"".join(value for value in values if value is not None)
    return Slices(joined, memoryview(starts), memoryview(ends))
