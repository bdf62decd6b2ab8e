"""Certificates, made once: what they say differs by test, how they are made does not."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from bendybus.doors.local_authority import AuthorityFolder, make_certificate


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFolder:
    """A certificate for this machine, signed by an authority of its own."""
    made = AuthorityFolder(tmp_path / "tls")
    make_certificate(made, ["localhost", "127.0.0.1"], days=30, now=datetime.now(UTC))
    return made
