"""Files on the disk, so that a kill can come while a commit waits for it."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from bendybus.testing.postgres import PostgresServer
from tests.memory_folder import DISK


@pytest.fixture(autouse=True, scope="module")
def _on_disk() -> Iterator[None]:
    """Brokers and servers make their folders there."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", DISK)
        yield


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own there."""
    with tempfile.TemporaryDirectory(prefix="bendybus-") as folder:
        yield Path(folder)


@pytest.fixture
def stores(request: pytest.FixtureRequest) -> Iterator[Sequence[str]]:
    """Where a broker has its stores: in `databases`, whose URLs these are, or in `files`."""
    if request.param == "files":
        yield ()
        return
    server: PostgresServer = request.getfixturevalue("shared_postgres")
    with ExitStack() as lent:
        yield [lent.enter_context(server.lent_database()) for _ in range(2)]
