"""Messages as columns, as a writer brings them in bulk."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from bendybus.columns.encoding import check_rows
from bendybus.columns.kept_rows import GatheredRows, SizedRows, kept
from bendybus.columns.target import Target
from bendybus.model.packed_messages import PackedRows

_TARGET: Final = Target(
    entity="orders",
    message_bytes_max=1 << 20,
    requires_session=False,
    has_duplicate_detection=False,
    is_partitioned=False,
    fragment_count=1,
    is_topic=False,
)


def columns_of(
    numbers: Sequence[int], *, key: str | None = None, life: int | None = None
) -> PackedRows:
    """Return messages whose bodies and ids are these numbers."""
    count = len(numbers)
    columns = {
        "message_id": pa.array([f"id-{number}" for number in numbers]),
        "partition_key": pa.array([key] * count, pa.string()),
        "subject": pa.array([f"subject {number % 2}" for number in numbers]),
        "time_to_live": pa.array([life] * count, pa.int64()),
        "body": pa.array([b"%d" % number for number in numbers], pa.binary()),
    }
    checked = check_rows(pa.record_batch(columns), _TARGET)
    rows = kept(checked.rows, _TARGET)
    assert rows is not None, "a queue need not know more of them"
    gathered = GatheredRows(count_max=count, bytes_max=1 << 30)
    parts = list(gathered.add(None, SizedRows(rows, checked.pieces.sizes)))
    [packed] = [*parts, *(part for _, part in gathered.everything())]
    return packed
