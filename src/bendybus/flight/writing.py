"""Writing: rows become messages, which are kept in a stage until it is published.

A stream is read no faster than its rows get to the disk, so a writer is held back by TCP and takes
the same memory however much it brings.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import flight

from bendybus.broker.send import check_open_for_send, check_takes_messages
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.served_topic import ServedTopic
from bendybus.broker.stage import (
    CHUNK_BYTES_MAX,
    CHUNK_MESSAGES_MAX,
    Packed,
    StageLabel,
    StageReceipt,
    StageUnderWay,
    open_stage,
)
from bendybus.columns.encoding import CheckedRows, RejectedRow, check_rows
from bendybus.columns.kept_rows import GatheredRows, SizedRows, kept
from bendybus.columns.packing import sorted_by_fragment
from bendybus.columns.target import Target, check_columns
from bendybus.flight.body import ADDRESS_FIELDS, read_body
from bendybus.flight.calls import Call
from bendybus.flight.desk import Desk
from bendybus.flight.hop import LONG_SECONDS_MAX
from bendybus.flight.service import Service
from bendybus.model.actions import Action
from bendybus.model.addresses import Address
from bendybus.model.errors import ArgumentInvalid, OperationTimeout
from bendybus.model.ids import SubQueue

COMMAND_FIELDS: Final = (
    *ADDRESS_FIELDS,
    *("writer", "batch", "task", "attempt", "on_bad_row"),
)
# So many rows, and bytes, are made into messages at a time.
ROWS_AT_ONCE: Final = 16_384
BYTES_AT_ONCE: Final = 8 * 1024 * 1024
BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
"""A record batch is in memory as a whole; a larger one is refused."""
REJECTED_MAX: Final = 10_000
"""Of a stage. Each is told; beyond that something is wrong with all."""
_WORDS: Final = {"fail": False, "reject": True}


@dataclass(frozen=True, slots=True)
class PutCommand:
    """What a DoPut says of the rows that follow."""

    address: Address
    label: StageLabel
    rejects: bool


def read_command(content: bytes) -> PutCommand:
    """Read the command of a DoPut. Raises `ArgumentInvalid`."""
    body = read_body(content, COMMAND_FIELDS, "command")
    label = StageLabel(
        body.text("writer"), body.number("batch"), body.number("task"), body.number("attempt")
    )
    rejects = body.word("on_bad_row", _WORDS) if body.has("on_bad_row") else False
    return PutCommand(body.address(), label, rejects)


class Writing:
    """A stage that a stream is brought into."""

    def __init__(self, stage: StageUnderWay, target: Target) -> None:
        self.stage = stage
        self.target = target
        self.rows = 0
        self.rejected: list[RejectedRow] = []
        self._gathered = GatheredRows(CHUNK_MESSAGES_MAX, CHUNK_BYTES_MAX)

    def packed(self, rows: pa.RecordBatch, *, rejects: bool) -> list[Packed]:
        """Make messages of the next rows, or gather them until there are enough of them.

        Raises `ArgumentInvalid` for one that can be none.
        """
        checked = check_rows(rows, self.target, first_row=self.rows, rejects=rejects)
        self.rows += rows.num_rows
        self.rejected += checked.rejected
        if len(self.rejected) > REJECTED_MAX:
            raise ArgumentInvalid(
                f"More than {REJECTED_MAX} rows cannot be messages. {self.rejected[0].why}"
            )
        columns = kept(checked.rows, self.target)
        if columns is not None:
            return self._gather(columns, checked)
        # What was gathered comes before.
        return [*self.rest(), *checked.encoded(self.target).items()]

    def rest(self) -> list[Packed]:
        """Return what was gathered and is not enough."""
        return list(self._gathered.everything())

    def _gather(self, columns: pa.RecordBatch, checked: CheckedRows) -> list[Packed]:
        """Gather rows by fragment; copied, so that the few of one keep no memory of all others."""
        sizes = checked.pieces.sizes
        order, stretches = sorted_by_fragment(checked.rows, self.target, checked.good)
        found: list[Packed] = []
        for fragment, start, stop in stretches:
            part = SizedRows(columns, sizes)
            if order is not None:
                at = order[start:stop]
                part = SizedRows(columns.take(pa.array(at)), sizes[at])
            found += [(fragment, packed) for packed in self._gathered.add(fragment, part)]
        return found


async def open_writing(
    service: Service, call: Call, command: PutCommand, schema: pa.Schema
) -> Writing:
    """Begin a stage for who may send to the entity, if the columns can be messages."""
    queue = await writable(service.desk, call, command.address)
    target = _target(queue)
    check_columns(schema, target)
    stage = await open_stage(queue, command.label, service.desk.stages_under_way, service.clock)
    return Writing(stage, target)


async def writable(desk: Desk, call: Call, address: Address) -> ServedQueue:
    """Return what messages can be written to: other than by AMQP, also one subscription.

    Raises `InvalidOperation`, and `EntityDisabled`.
    """
    queue = await desk.queue(call, address, Action.STAGE_MESSAGES)
    if address.sub_queue is not SubQueue.MAIN:
        check_takes_messages(queue, address.sub_queue)
    check_open_for_send(queue)
    return queue


class Bringing(NamedTuple):
    """A stream of rows, whether its writer has gone, and its call."""

    reader: flight.MetadataRecordBatchReader
    is_cancelled: Callable[[], bool]
    call: Call


def write(
    writing: Writing, bringing: Bringing, service: Service, *, rejects: bool
) -> dict[str, Any]:
    """Bring all rows into the stage; return what to answer, once they are on disk."""
    try:
        receipt = _brought(writing, bringing, service, rejects=rejects)
    except BaseException:
        service.hop.start(writing.stage.cancel())
        raise
    return {**receipt._asdict(), "rejected": [each._asdict() for each in writing.rejected]}


def _brought(
    writing: Writing, bringing: Bringing, service: Service, *, rejects: bool
) -> StageReceipt:
    hop, stage = service.hop, writing.stage
    adding: Future[None] | None = None
    for batch in _batches(bringing):
        for rows in _sliced(batch):
            packed = writing.packed(rows, rejects=rejects)
            if adding is not None:
                hop.wait(adding, LONG_SECONDS_MAX)
            adding = hop.start(stage.add(packed))
        service.calls.note_in(batch.num_rows, batch.nbytes)
    if adding is not None:
        hop.wait(adding, LONG_SECONDS_MAX)
    if bringing.is_cancelled():
        raise OperationTimeout("The writer has gone before all its rows had come.")
    hop.run(stage.add(writing.rest()), LONG_SECONDS_MAX)
    return hop.run(stage.complete(), LONG_SECONDS_MAX)


def _batches(bringing: Bringing) -> Iterator[pa.RecordBatch]:
    while True:
        bringing.call.await_client()
        try:
            batch = bringing.reader.read_chunk().data
        except StopIteration:
            return
        except pa.ArrowException as error:
            raise ArgumentInvalid(f"The rows cannot be read: {error}.") from None
        finally:
            bringing.call.go_on()
        if batch is None:
            continue
        if batch.nbytes > BATCH_BYTES_MAX:
            raise ArgumentInvalid(
                f"A record batch has {batch.nbytes} bytes; the most is {BATCH_BYTES_MAX}. Bring"
                " fewer rows at a time."
            )
        yield batch


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that messages made of it do not take much memory at once."""
    row_bytes = max(batch.nbytes // max(batch.num_rows, 1), 1)
    rows = max(min(ROWS_AT_ONCE, BYTES_AT_ONCE // row_bytes), 1)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _target(queue: ServedQueue) -> Target:
    properties = queue.properties
    return Target(
        queue.name,
        queue.message_bytes_max,
        properties.requires_session,
        properties.requires_duplicate_detection,
        queue.is_partitioned,
        len(queue.main.sources),
        isinstance(queue, ServedTopic),
    )
