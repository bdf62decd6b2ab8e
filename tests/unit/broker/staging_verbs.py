"""Bringing rows to a broker without a wire, for tests of staging and publishing."""

from array import array
from collections.abc import Sequence
from contextlib import closing

from bendybus.broker import stage
from bendybus.broker.publish_staged import Published, publish_staged
from bendybus.broker.send import group_by_fragment
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.stage import Packed, StageLabel, StageReceipt, StageUnderWay, open_stage
from bendybus.columns.encoding import check_rows
from bendybus.columns.kept_rows import GatheredRows, SizedRows, kept
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message, StoredMessage
from bendybus.model.packed_messages import PackedMessages, PackedRows
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.store import PostgresStore
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.local_broker import LocalBroker, StartedStore
from tests.unit.columns.row_batches import TARGET, batch_of

WRITER = "query"


def pack(messages: Sequence[Message]) -> PackedMessages:
    """Pack messages; all of them have a field, or it is left out."""

    def column(name: str) -> list[str | None] | None:
        values = [getattr(each, name) for each in messages]
        return values if any(values) else None

    return PackedMessages(
        b"".join(each.content for each in messages),
        array("I", [len(each.content) for each in messages]),
        session_ids=column("session_id"),
        partition_keys=column("partition_key"),
        message_ids=[each.message_id for each in messages] if messages[0].message_id else None,
        times_to_live_ms=[each.time_to_live_ms for each in messages],
        schedule=[each.scheduled_at for each in messages]
        if any(each.scheduled_at is not None for each in messages)
        else None,
    )


def grouped(queue: ServedQueue, messages: Sequence[Message]) -> list[Packed]:
    """Pack messages by the fragment that each is for."""
    return [
        (fragment, pack([messages[at] for at in places]))
        for fragment, places in group_by_fragment(queue, messages).items()
    ]


def grouped_as_columns(queue: ServedQueue, messages: Sequence[Message]) -> list[Packed]:
    """Pack messages by the fragment that each is for, as columns; bodies are what they contain."""
    groups = [
        (fragment, columns_of([messages[at] for at in places]))
        for fragment, places in group_by_fragment(queue, messages).items()
    ]
    return [(fragment, part) for fragment, parts in groups for part in parts]


def columns_of(messages: Sequence[Message]) -> list[PackedRows]:
    """Keep messages as columns, as many together as a chunk has; those without a key apart."""
    found: list[PackedRows] = []
    for is_keyed in (False, True):
        some = [each for each in messages if (each.partition_key is not None) is is_keyed]
        rows = [{"partition_key": each.partition_key, "body": each.content} for each in some]
        checked = check_rows(batch_of(rows, ("partition_key", "body")), TARGET)
        columns = kept(checked.rows, TARGET)
        assert columns is not None
        gathered = GatheredRows(stage.CHUNK_MESSAGES_MAX, stage.CHUNK_BYTES_MAX)
        found += gathered.add(None, SizedRows(columns, checked.pieces.sizes))
        found += [part for _, part in gathered.everything()]
    return found


async def begin(
    broker: LocalBroker, queue: ServedQueue, batch: int = 0, *, writer: str = WRITER
) -> StageUnderWay:
    """Begin a stage."""
    under_way = broker.catalog.holdings.under_way
    return await open_stage(queue, StageLabel(writer, batch), under_way, broker.clock)


async def bring(
    broker: LocalBroker,
    queue: ServedQueue,
    messages: Sequence[Message],
    batch: int = 0,
    *,
    writer: str = WRITER,
) -> StageReceipt:
    """Bring messages as one stage."""
    under_way = await begin(broker, queue, batch, writer=writer)
    await under_way.add(grouped(queue, messages))
    return await under_way.complete()


async def publish(
    broker: LocalBroker,
    queue: ServedQueue,
    stages: Sequence[str],
    batch: int = 0,
    *,
    writer: str = WRITER,
) -> Published:
    """Publish a batch."""
    under_way = broker.catalog.holdings.under_way
    return await publish_staged(queue, writer, batch, stages, under_way, broker.clock)


async def held(queue: ServedQueue, sub_queue: SubQueue = SubQueue.MAIN) -> list[StoredMessage]:
    """Return all that a queue holds, fragment by fragment, in order."""
    found: list[StoredMessage] = []
    for source in queue.sub_queues[sub_queue].sources:
        found += await source.store.browse(
            source.number, from_sequence=0, count_max=100_000, bytes_max=1 << 30
        )
    return found


async def rows_left(broker: LocalBroker) -> list[int]:
    """Count chunks that are not published, and stages, in all stores."""
    tables = ("staged WHERE stage >= 0", "stage")
    return [sum([await _rows_in(store, table) for store in broker.stores]) for table in tables]


async def _rows_in(store: StartedStore, table: str) -> int:
    statement = f"SELECT count(*) FROM {table}"  # noqa: S608 - our own names
    if isinstance(store, PostgresStore):
        with closing(connect(store.url)) as connection:
            [(count,)] = connection.execute(statement.encode()).fetchall()
            return int(count)
    assert isinstance(store, SqliteStore)
    [(count,)] = await store.look(lambda database: database.execute(statement).fetchall())
    return int(count)
