"""`bendybus profile`: what is kept, who can read it, and which broker a command then means."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import SECONDS_MAX, environment, run

STAGING = "Endpoint=sb://staging.example;SharedAccessKeyName=Root;SharedAccessKey=key-of-staging-0;"


class Profiles:
    """Commands with profiles of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "bendybus" / "profiles.json"

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return run(*arguments, XDG_CONFIG_HOME=str(self.folder), **variables)

    def text(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def profiles(tmp_path: Path) -> Profiles:
    return Profiles(tmp_path)


def add(profiles: Profiles, name: str, url: str) -> None:
    where = ("--connection-string", STAGING, "--management-url", url)
    profiles.text("profile", "add", name, *where)


def test_a_profile_is_kept_where_only_its_owner_can_read_it(profiles: Profiles) -> None:
    add(profiles, "staging", "http://127.0.0.1:1")
    assert stat.S_IMODE(profiles.file.stat().st_mode) == 0o600
    listed = profiles.text("profile", "list")
    assert "staging.example" in listed
    assert "key-of-staging-0" not in listed


def test_a_key_need_not_be_typed_where_others_see_it(profiles: Profiles) -> None:
    subprocess.run(
        [sys.executable, "-m", "bendybus", "profile", "add", "x", "--connection-string", "-"],
        env=environment(XDG_CONFIG_HOME=str(profiles.folder)),
        input=f"{STAGING}\n",
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert json.loads(profiles.file.read_text())["profiles"]["x"]["connection_string"] == STAGING


def test_the_profile_that_is_named_or_in_use_says_where_the_broker_is(profiles: Profiles) -> None:
    add(profiles, "one", "http://127.0.0.1:1")
    add(profiles, "two", "http://127.0.0.1:2")
    named = profiles.run("--profile", "two", "queue", "list")
    assert "http://127.0.0.1:2" in named.stderr
    profiles.text("profile", "use", "one")
    assert "http://127.0.0.1:1" in profiles.run("queue", "list").stderr
    variable = profiles.run("queue", "list", BENDYBUS_MANAGEMENT_URL="http://127.0.0.1:3")
    assert "http://127.0.0.1:3" in variable.stderr
    both = profiles.run(
        "--profile", "two", "queue", "list", BENDYBUS_MANAGEMENT_URL="http://127.0.0.1:3"
    )
    assert "http://127.0.0.1:2" in both.stderr, "who names a profile means it"
    option = profiles.run("queue", "list", "--management-url", "http://127.0.0.1:4")
    assert "http://127.0.0.1:4" in option.stderr


def test_a_removed_profile_is_forgotten_with_its_key(profiles: Profiles) -> None:
    add(profiles, "one", "http://127.0.0.1:1")
    profiles.text("profile", "use", "one")
    profiles.text("profile", "remove", "one")
    assert "key-of-staging-0" not in profiles.file.read_text()
    assert json.loads(profiles.text("profile", "list", "--output", "json")) == []
    assert "http://localhost:5300" in profiles.run("queue", "list").stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("profile", "use", "nowhere"), "there is no profile 'nowhere'"),
        (("profile", "remove", "nowhere"), "there is no profile 'nowhere'"),
        (("--profile", "nowhere", "queue", "list"), "there is no profile 'nowhere'"),
        (("profile", "add", "x", "--connection-string", "Endpoint=sb://h"), "SharedAccessKeyName"),
    ],
)
def test_what_cannot_be_done_is_said(
    profiles: Profiles, arguments: tuple[str, ...], text: str
) -> None:
    done = profiles.run(*arguments)
    assert done.returncode == 1
    assert text in done.stderr


def test_a_file_that_is_no_file_of_profiles_is_named(profiles: Profiles) -> None:
    profiles.file.parent.mkdir()
    profiles.file.write_text("[")
    done = profiles.run("queue", "list")
    assert done.returncode == 1
    assert str(profiles.file) in done.stderr
