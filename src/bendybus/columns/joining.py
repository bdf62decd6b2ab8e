"""Several scans of messages that still are columns become one: many cost little more than few."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from bendybus.model.scanned import Scanned


def can_join(scanned: Scanned, other: Scanned) -> bool:
    """Say whether two scans can become one: of both, only columns are known."""
    return scanned.kept is not None and other.kept is not None


def kept_bytes(scanned: Scanned) -> int:
    """Return how much memory the columns of a scan take."""
    return sum(len(each.beside or b"") + len(each.bodies or b"") for each in scanned.kept or ())


def joined(parts: Sequence[Scanned]) -> Scanned:
    """Put scans one behind the other, all of which can be joined. The next is that of the last."""
    if len(parts) == 1:
        return parts[0]

    def end_to_end(name: str) -> memoryview:
        return np.concatenate([np.asarray(getattr(part, name)) for part in parts]).data

    return Scanned(
        count=sum(part.count for part in parts),
        next_sequence=parts[-1].next_sequence,
        sequences=end_to_end("sequences"),
        enqueued_at=end_to_end("enqueued_at"),
        delivery_counts=end_to_end("delivery_counts"),
        states=end_to_end("states"),
        expires_at=end_to_end("expires_at"),
        session_ids=None,
        partition_keys=None,
        marks=None,
        contents=None,
        kept=list(chain.from_iterable(part.kept or () for part in parts)),
    )
