"""Hypothesis profiles, the folder of all files, and the PostgreSQL server that many tests share.

Everything else a test needs stands beside the test.

Examples are random in every profile. A failure prints the decorator that brings the very example
back, and pytest-randomly prints the seed of the order at the top of each run.
"""

import tempfile
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from bendybus.testing.blank_stores import BlankStores
from bendybus.testing.postgres import UNSYNCED, PostgresServer, postgres_server
from tests.memory_folder import roomy_folder

# A deadline measures the machine, not the code; pytest-timeout catches what hangs.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile(
    "prove",
    settings.get_profile("default"),
    max_examples=2_000,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("default")


def pytest_configure() -> None:
    """Have all folders of tests made in memory, if there is room."""
    tempfile.tempdir = roomy_folder()


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[PostgresServer]:
    """A server that every test may have databases of, and none may stop."""
    with postgres_server(UNSYNCED) as server:
        yield server


@pytest.fixture
def postgres_url(shared_postgres: PostgresServer) -> Iterator[str]:
    """An empty database of that server."""
    with shared_postgres.lent_database() as url:
        yield url


@pytest.fixture(scope="session")
def blank_stores(shared_postgres: PostgresServer) -> Iterator[BlankStores]:
    """Stores of that server."""
    stores = BlankStores(shared_postgres)
    yield stores
    stores.close()


@pytest.fixture
def blank_store(blank_stores: BlankStores) -> Iterator[str]:
    """A database with the tables of a store, and nothing in them."""
    with blank_stores.lent() as url:
        yield url
