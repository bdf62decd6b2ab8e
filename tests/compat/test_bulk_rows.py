"""What the official client sees of rows that were written in bulk: messages like any other."""

import asyncio
import base64
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage

from bendybus.broker.clock import SystemClock
from bendybus.broker.publish_staged import publish_staged
from bendybus.broker.served_queue import ServedQueue
from bendybus.broker.stage import StageLabel, open_stage
from bendybus.columns.arrow_types import arrow_schema
from bendybus.columns.encoding import check_rows
from bendybus.columns.schema import WRITABLE
from bendybus.columns.target import Target, check_columns
from bendybus.model.entity import Queue, QueueProperties
from bendybus.testing.local_broker import LocalBroker, listening, local_broker

pytestmark = pytest.mark.spec("R9.1")
WAIT_SECONDS = 20
LATER = datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
ID = uuid.UUID("b4dd2ac8-3f3f-4b8c-9d0a-0a1b2c3d4e5f")
PROPERTIES = {
    "string": ("string", "tür"),
    "int": ("int", "-7"),
    "long": ("long", str(2**40)),
    "double": ("double", "0.5"),
    "boolean": ("boolean", "true"),
    "uuid": ("uuid", str(ID)),
    "timestamp": ("timestamp", "2020-01-02T03:04:05.678Z"),
    "binary": ("binary", base64.b64encode(b"\0\xff").decode()),
    "null": ("null", None),
}
SEEN = {
    b"string": "tür".encode(),
    b"int": -7,
    b"long": 2**40,
    b"double": 0.5,
    b"boolean": True,
    b"uuid": ID,
    b"timestamp": LATER,
    b"binary": b"\0\xff",
    b"null": None,
}


def full_row(body: bytes, **fields: object) -> dict[str, Any]:
    """Make a row with a value in every column."""
    return {
        "message_id": "m-1",
        "correlation_id": "c" * 300,
        "subject": "label",
        "content_type": "text/plain",
        "to": "there",
        "reply_to": "back",
        "reply_to_session_id": "s-2",
        "time_to_live": 60_000,
        "application_properties": [
            (name, {"type": kind, "value": text}) for name, (kind, text) in PROPERTIES.items()
        ],
        "body": body,
        **fields,
    }


async def write(broker: LocalBroker, queue: ServedQueue, rows: list[dict[str, Any]]) -> None:
    """Write rows, as the bulk door does."""
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(WRITABLE))
    properties = queue.properties
    target = Target(
        queue.name,
        queue.message_bytes_max,
        properties.requires_session,
        properties.requires_duplicate_detection,
        queue.is_partitioned,
        len(queue.main.sources),
        is_topic=False,
    )
    check_columns(batch.schema, target)
    under_way, clock = broker.catalog.holdings.under_way, broker.clock
    stage = await open_stage(queue, StageLabel("writer", 0), under_way, clock)
    await stage.add(check_rows(batch, target).encoded(target).items())
    receipt = await stage.complete()
    await publish_staged(queue, "writer", 0, [receipt.stage], under_way, clock)


def received(port: int, queue: str, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive with the official client."""
    text = (
        f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )
    session_id = "s-1" if queue == "ledger" else None
    found: list[ServiceBusReceivedMessage] = []
    with (
        ServiceBusClient.from_connection_string(text) as client,
        client.get_queue_receiver(
            queue, session_id=session_id, max_wait_time=WAIT_SECONDS
        ) as receiver,
    ):
        while len(found) < count:
            found += receiver.receive_messages(count)
        for message in found:
            receiver.complete_message(message)
    return found


@pytest.mark.parametrize("queue", ["orders", "parts", "ledger"])
async def test_a_row_is_received_as_the_message_that_it_says(tmp_path: Path, queue: str) -> None:
    entities = [
        Queue("orders"),
        Queue("parts", QueueProperties(enable_partitioning=True)),
        Queue("ledger", QueueProperties(enable_partitioning=True, requires_session=True)),
    ]
    key = {"session_id": "s-1"} if queue == "ledger" else {"partition_key": "key"}
    rows = [full_row(b"\xff\0 no text", **key), {"body": bytes(250_000), **key}]
    async with (
        local_broker(tmp_path, entities, SystemClock(), stores=2) as broker,
        listening(broker) as listener,
    ):
        await write(broker, broker.queue(queue), rows)
        port = listener.ports["amqp"]
        first, second = await asyncio.to_thread(received, port, queue, 2)

    assert b"".join(first.body) == b"\xff\0 no text"
    assert (first.message_id, first.correlation_id) == ("m-1", "c" * 300)
    assert (first.subject, first.content_type, first.to) == ("label", "text/plain", "there")
    assert (first.reply_to, first.reply_to_session_id) == ("back", "s-2")
    assert first.time_to_live == timedelta(minutes=1)
    assert first.application_properties is not None
    properties: dict[object, object] = dict(first.application_properties.items())
    properties[b"timestamp"] = _moment(properties[b"timestamp"])
    assert properties == SEEN
    assert b"".join(second.body) == bytes(250_000)
    assert len(second.message_id or "") == 32
    for message in (first, second):
        assert message.delivery_count == 0
        if queue == "ledger":
            assert message.session_id == "s-1"
        else:
            assert message.partition_key == "key"


def _moment(value: object) -> datetime:
    """Read a timestamp as this version of the client gives it: in milliseconds, or as a time."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    assert isinstance(value, int)
    return datetime.fromtimestamp(value / 1000, UTC)
