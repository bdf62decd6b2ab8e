"""A broker with something to manage, for tests that are refused, and for those that change it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from bendybus.atom.properties import Kind
from tests.http.managing import Administrator, managing


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def administrator(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Administrator]:
    """A broker for all tests: they are refused, so that each finds it as it was."""
    async with _managing(tmp_path_factory.mktemp("broker")) as administrator:
        yield administrator


@pytest_asyncio.fixture(loop_scope="module")
async def lone(tmp_path: Path) -> AsyncIterator[Administrator]:
    """A broker for a test that changes something."""
    async with _managing(tmp_path) as administrator:
        yield administrator


@asynccontextmanager
async def _managing(folder: Path) -> AsyncIterator[Administrator]:
    async with managing(folder) as administrator:
        await administrator.create("/q", Kind.QUEUE)
        await administrator.create("/partitioned", Kind.QUEUE, enable_partitioning=True)
        await administrator.create("/t", Kind.TOPIC)
        await administrator.create("/t/subscriptions/s", Kind.SUBSCRIPTION)
        yield administrator
