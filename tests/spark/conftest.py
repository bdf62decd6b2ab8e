"""One Spark session and one broker for all tests here; each test has entities of its own.

Tasks are tried again, as on a cluster: without that, what is doubled would never show.
"""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from bendybus.atom.properties import Kind
from bendybus.client.administration import Administration
from bendybus.pipelines.session import spark_session
from bendybus.testing.broker_process import BrokerProcess, broker_process

MASTER = "local[2,4]"
# For every Java that is started from here: none lives long enough to earn back what its second
# compiler and a collector of many threads cost.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_numbers = count()


class Bus:
    """The broker of the tests, and how the data source finds it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.connection_string = broker.connection_string()
        self.flight_endpoint = f"grpc://localhost:{broker.flight_port}"
        self.administration = Administration.from_connection_string(
            self.connection_string, broker.management_url
        )

    def source(self, entity: str, **options: object) -> dict[str, str]:
        """Return options of the data source for an entity."""
        return {
            "connectionString": self.connection_string,
            "flightEndpoint": self.flight_endpoint,
            "entity": entity,
            **{name: str(value) for name, value in options.items()},
        }

    def queue(self, *, is_partitioned: bool = False, **properties: Any) -> str:
        """Make a queue that no other test uses; return its name."""
        return self._made(Kind.QUEUE, is_partitioned, properties)

    def topic(self, *subscriptions: str, is_partitioned: bool = False, **properties: Any) -> str:
        """Make a topic with subscriptions that get everything."""
        name = self._made(Kind.TOPIC, is_partitioned, properties)
        for subscription in subscriptions:
            self.administration.create(Kind.SUBSCRIPTION, subscription, {}, topic=name)
        return name

    def _made(self, kind: Kind, is_partitioned: bool, properties: dict[str, Any]) -> str:
        name = f"{kind.name.lower()}-{next(_numbers)}"
        wanted = {"enable_partitioning": is_partitioned, **properties}
        self.administration.create(kind, name, wanted)
        return name


def write_empty_namespace(folder: Path) -> Path:
    """Write a configuration without entities."""
    path = folder / "namespace.json"
    namespace = {"Name": "sbemulatorns", "Queues": [], "Topics": []}
    path.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}))
    return path


def pytest_report_header() -> str:
    """Say which Spark is tested."""
    return f"Spark {pyspark.__version__}"


@pytest.fixture(autouse=True, scope="session")
def _short_lived() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
        yield


@pytest.fixture(scope="session")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    config = write_empty_namespace(tmp_path_factory.mktemp("bus"))
    with broker_process(config, has_flight=True) as broker:
        yield Bus(broker)
        assert "Traceback" not in broker.log, broker.log


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Bus]:
    """A broker that a test may kill."""
    folder = tmp_path / "broker"
    folder.mkdir()
    with broker_process(write_empty_namespace(folder), folder=folder, has_flight=True) as broker:
        yield Bus(broker)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with spark_session("tests", MASTER) as session:
        assert session.version == pyspark.__version__, "Java has found another Spark than Python"
        yield session


# What Spark sees differs in the number of fragments alone. Both kinds are tried without Spark in
# tests/source and tests/flight, and here by the long proofs.
@pytest.fixture(
    params=[pytest.param(False, marks=pytest.mark.prove), True],
    ids=["conventional", "partitioned"],
)
def is_partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
