"""Stores that front ends share, of every engine; no test knows which."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bendybus.store.identity import StoreIdentity
from bendybus.store.postgres.store import PostgresStore
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.testing.clock import ManualClock
from bendybus.testing.postgres import PostgresServer
from tests.frontends.front_end import STORES, OpenStores

HURRIED = Pacing(attend_seconds=0.05)


@pytest.fixture
def clock() -> ManualClock:
    """The time of all front ends."""
    return ManualClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def open_stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStores]:
    """Make another front end's stores on the same data."""
    if request.param == "sqlite":
        yield lambda: [
            SharedSqliteStore(number, tmp_path / f"store-{number:02}.db", pacing=HURRIED)
            for number in range(STORES)
        ]
        return
    server: PostgresServer = request.getfixturevalue("shared_postgres")
    with ExitStack() as lent:
        urls = [lent.enter_context(server.lent_database()) for _ in range(STORES)]
        yield lambda: [
            PostgresStore(number, url, identity=_identity(number))
            for number, url in enumerate(urls)
        ]


def _identity(number: int) -> StoreIdentity:
    return StoreIdentity("test", number, STORES, ("sbemulatorns",), may_claim=True)
