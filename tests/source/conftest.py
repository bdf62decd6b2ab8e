"""One broker for the tests of the source that need no Spark."""

from collections.abc import Iterator

import pytest

from bendybus.testing.broker_process import broker_process
from tests.spark.conftest import Bus, write_empty_namespace


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    config = write_empty_namespace(tmp_path_factory.mktemp("bus"))
    with broker_process(config, has_flight=True) as broker:
        yield Bus(broker)
        assert "Traceback" not in broker.log, broker.log


@pytest.fixture(params=[False, True], ids=["conventional", "partitioned"])
def is_partitioned(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
