"""Nothing in the project depends on one machine or on one package index."""

import re
from pathlib import Path

import pytest

from tests.tidy.tree import project_files, read

HOME_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users)/\w+")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|yarnpkg|crates)\.(?:org|com|io)\b|\bregistry\.\w+\.\w+",
    re.IGNORECASE,
)
LOCKS = [path for path in project_files() if path.match("requirements/*.txt")]
PINNED = re.compile(r"^[a-z0-9][\w.-]*==[\w.]+( ; [^\\]+)? \\\n(    --hash=sha256:\w{64}( \\)?\n)+")


@pytest.mark.parametrize("pattern", [HOME_PATH, REGISTRY_HOST], ids=["home path", "registry host"])
def test_no_file_names_somebodys_home_or_a_registry(pattern: re.Pattern[str]) -> None:
    found = {
        str(path): match[0] for path in project_files() if (match := pattern.search(read(path)))
    }
    assert not found


@pytest.mark.parametrize(
    "text", ["in " + "/root" + "/x", "/home" + "/me/bus", "('/Users" + "/me')"]
)
def test_a_path_in_somebodys_home_is_found(text: str) -> None:
    assert HOME_PATH.search(text)


@pytest.mark.parametrize(
    "text", ["pypi" + ".org", "files.pythonhosted" + ".org", "registry" + ".x.com"]
)
def test_the_host_of_a_registry_is_found(text: str) -> None:
    assert REGISTRY_HOST.search(text)


@pytest.mark.parametrize("path", LOCKS, ids=str)
def test_every_locked_package_is_pinned_with_hashes(path: Path) -> None:
    entries = re.split(
        r"^(?=\w)", re.sub(r"^ *#.*\n", "", read(path), flags=re.MULTILINE), flags=re.MULTILINE
    )
    assert [entry for entry in entries if entry and not PINNED.fullmatch(entry)] == []


def test_the_run_lock_is_part_of_the_dev_lock() -> None:
    pins = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)
    run, dev = (
        set(pins.findall(read(Path(f"requirements/{kind}.txt")))) for kind in ("run", "dev")
    )
    assert run
    assert run <= dev, "run scripts/lock"
