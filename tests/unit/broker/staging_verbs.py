"""Bringing rows to a broker without a wire, for tests of staging and publishing."""

from array import array
from collections.abc import Mapping, Sequence
from contextlib import closing

from bendybus.broker.publish_staged import Published, publish_staged
from bendybus.broker.send import group_by_fragment
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.stage import StageLabel, StageReceipt, StageUnderWay, open_stage
from bendybus.model.ids import SubQueue
from bendybus.model.message import Message, StoredMessage
from bendybus.model.packed_messages import PackedMessages
from bendybus.store.postgres.connecting import connect
from bendybus.store.postgres.store import PostgresStore
from bendybus.testing.local_broker import LocalBroker, StartedStore

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


def grouped(queue: ServedQueue, messages: Sequence[Message]) -> Mapping[int | None, PackedMessages]:
    """Pack messages by the fragment that each is for."""
    return {
        fragment: pack([messages[at] for at in places])
        for fragment, places in group_by_fragment(queue, messages).items()
    }


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
    stage = await begin(broker, queue, batch, writer=writer)
    await stage.add(grouped(queue, messages))
    return await stage.complete()


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
    """Count chunks and stages in all stores."""
    return [
        sum([_rows_in(store, table) for store in broker.stores]) for table in ("staged", "stage")
    ]


def _rows_in(store: StartedStore, table: str) -> int:
    statement = f"SELECT count(*) FROM {table}"  # noqa: S608 - our own names
    if isinstance(store, PostgresStore):
        with closing(connect(store.url)) as connection:
            [(count,)] = connection.execute(statement.encode()).fetchall()
            return int(count)
    database = store._lane._database
    assert database is not None
    [(count,)] = database.connection.execute(statement).fetchall()
    return int(count)
