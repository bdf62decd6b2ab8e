"""Databases to be measured; and the shipped contract shows what differs when it is not kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.steps import Measured, postgres_measured, sqlite_measured

pytest.register_assert_rewrite("bendybus.testing.store_contract")


@pytest.fixture(params=["sqlite", "postgresql"])
def measured(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Measured]:
    """An empty database of each engine, whose steps can be counted."""
    if request.param == "sqlite":
        with sqlite_measured(tmp_path / "store.db") as measured:
            yield measured
    else:
        with postgres_measured(request.getfixturevalue("postgres_url")) as measured:
            yield measured
