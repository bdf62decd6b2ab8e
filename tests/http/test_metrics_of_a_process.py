"""`/metrics` of a broker as it runs: its doors, its process, and who may read."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bendybus.client import Client, Message
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.compat.python.scenario import until
from tests.http.rest_client import live_token

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "namespace.yaml"
# The example has it, and it is partitioned.
QUEUE: Final = "telemetry"


def figures(broker: BrokerProcess) -> Callable[..., float]:
    answer = httpx.get(f"{broker.management_url}/metrics", trust_env=False)
    assert answer.status_code == 200
    samples = [
        sample
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    ]

    def total(name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    return total


def test_the_figures_follow_the_traffic_by_amqp_and_http() -> None:
    with broker_process(EXAMPLE) as broker:
        with Client.from_connection_string(broker.connection_string()) as client:
            sender = client.sender(QUEUE)
            for _ in range(3):
                sender.send([Message(b"12345") for _ in range(10)])
            until(lambda: figures(broker)("bendybus_messages_accepted_total", entity=QUEUE) == 30)
            now = figures(broker)
            assert now("bendybus_messages", entity=QUEUE, state="active") == 30
            assert now("bendybus_accepted_bytes_total", entity=QUEUE) >= 30 * len(b"12345")
            assert now("bendybus_connections", protocol="amqp") == 1
            assert now("bendybus_links") >= 1
        until(lambda: figures(broker)("bendybus_connections", protocol="amqp") == 0)
        httpx.get(f"{broker.management_url}/nothing", trust_env=False)
        until(
            lambda: figures(broker)("bendybus_http_requests_total", method="GET", status="401") == 1
        )
        now = figures(broker)
        assert now("bendybus_http_requests_total", method="GET", status="200") >= 2
        assert now("bendybus_connections", protocol="http") >= 1
        assert now("bendybus_store_up") == now("bendybus_build_info") * 16
        assert now("process_cpu_seconds_total") > 0
        assert now("process_open_fds") > 16
        assert now("process_resident_memory_bytes") > 10_000_000


def test_a_broker_can_be_told_that_readers_must_have_a_token() -> None:
    with broker_process(EXAMPLE, options=("--metrics", "managers")) as broker:
        url = f"{broker.management_url}/metrics"
        assert httpx.get(url, trust_env=False).status_code == 401
        # As Prometheus sends what its `authorization` says: the type, a space, the credentials.
        headers = {"Authorization": live_token()}
        assert headers["Authorization"].startswith("SharedAccessSignature sr=")
        assert httpx.get(url, headers=headers, trust_env=False).status_code == 200
