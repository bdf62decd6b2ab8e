"""However much there is to read, and however slowly, the broker takes so much memory at most."""

from pathlib import Path

import pyarrow as pa

from bendybus.client.bulk import BulkClient
from bendybus.client.bulk_values import Place, StageLabel
from bendybus.testing.broker_process import BrokerProcess, broker_process

CONFIG = """
UserConfig:
  Namespaces:
  - Name: only
    Queues: [{Name: parts, Properties: {EnablePartitioning: true}}]
"""
MEGABYTE = 1024 * 1024
PLACE = Place("parts")
ROWS, BODY = 80_000, b"x" * 1000
# Some thirty of each of the first eight; five of each that comes later.
STALLED_MEGABYTES_MAX = 8 * 30 + 12 * 6
READING_MEGABYTES_MAX = 120


def resident(broker: BrokerProcess) -> float:
    """Return the memory of a broker in megabytes."""
    pages = int(Path(f"/proc/{broker.pid}/statm").read_text().split()[1])
    return pages * 4096 / MEGABYTE


def test_readers_that_stop_reading_take_little_memory_each(tmp_path: Path) -> None:
    config = tmp_path / "one.yaml"
    config.write_text(CONFIG)
    with broker_process(config, has_flight=True) as broker:

        def client() -> BulkClient:
            endpoint = f"grpc://127.0.0.1:{broker.flight_port}"
            return BulkClient(broker.connection_string(), endpoint, patience_seconds=0)

        schema = pa.schema([("body", pa.binary())])
        rows = pa.RecordBatch.from_pylist([{"body": BODY}] * 5000, schema=schema)
        with client() as writer:
            label = StageLabel("fill", 0, 0, 0)
            staged = writer.stage(PLACE, schema, [rows] * (ROWS // 5000), label)
            writer.publish(PLACE, "fill", 0, [staged.stage])

        before = resident(broker)
        with client() as reader:
            assert sum(batch.num_rows for batch in reader.read(PLACE)) == ROWS
        assert resident(broker) - before < READING_MEGABYTES_MAX

        stalled = [client().read(PLACE) for _ in range(20)]
        for each in stalled:
            next(each)
        assert resident(broker) - before < STALLED_MEGABYTES_MAX
        # They were only slow: all is still there for them.
        assert sum(batch.num_rows for batch in stalled[-1]) > ROWS // 2
