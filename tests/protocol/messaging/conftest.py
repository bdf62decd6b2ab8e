"""The broker that these tests talk to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.protocol.messaging.serving import Served, serving


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A running broker with a few queues, on virtual time."""
    async with serving(tmp_path) as running:
        yield running
