"""What crashes are tried on: stores in files, and, where there is time, in databases."""

import pytest

from tests.history.grounds import Ground, databases, files


@pytest.fixture(params=["files", pytest.param("databases", marks=pytest.mark.prove)])
def ground(request: pytest.FixtureRequest) -> Ground:
    """Stores of each engine; no test knows which."""
    if request.param == "files":
        return files
    return databases(request.getfixturevalue("blank_stores"))
