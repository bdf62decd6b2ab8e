"""What users did wrong ends in one line that says what to do."""

import json
import subprocess
from pathlib import Path

import pytest

from bendybus import __version__
from tests.cli.command import run


def refused_line(result: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a refusal."""
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("bendybus: ")
    return line


def test_the_version_is_printed() -> None:
    assert run("version").stdout == f"{__version__}\n"


def test_help_teaches_how_to_begin() -> None:
    text = run("--help").stdout
    assert "bendybus serve --config examples/namespace.yaml" in text
    for option in ("--config", "--data", "--stores", "--host", "--amqp-port", "--http-port"):
        assert option in run("serve", "--help").stdout


def test_an_unknown_option_is_wrong_usage() -> None:
    assert run("serve", "--prot", "1").returncode == 2


def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    queue = {"Name": "q", "Properties": {"LockDuraton": "PT1M"}}
    file.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Queues": [queue]}]}}))
    line = refused_line(run("serve", "--config", file, "--data", tmp_path / "data"))
    assert f"{file}:1:" in line
    assert "Queues[0].Properties.LockDuraton: unknown key; did you mean LockDuration?" in line
    assert not (tmp_path / "data").exists()


def test_the_file_may_be_named_by_the_environment(tmp_path: Path) -> None:
    line = refused_line(run("serve", BENDYBUS_CONFIG=str(tmp_path / "none.yaml")))
    assert "none.yaml: cannot be read: No such file or directory" in line


def test_the_well_known_key_is_not_served_to_other_machines(tmp_path: Path) -> None:
    line = refused_line(run("serve", "--host", "::", "--data", tmp_path))
    assert "Give a key of your own in BENDYBUS_KEY or by --key-file FILE" in line


def test_the_command_line_beats_the_environment(tmp_path: Path) -> None:
    line = refused_line(run("serve", "--stores", "0", "--data", tmp_path, BENDYBUS_STORES="4"))
    assert "the number of stores must be between 1 and 256, not 0" in line


def test_the_environment_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("Broker: {Stores: 4}")
    line = refused_line(run("serve", "--config", file, BENDYBUS_STORES="999"))
    assert "not 999" in line


def test_a_data_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    line = refused_line(run("serve", "--data", file / "data", "--amqp-port", "0"))
    assert f"cannot write in the data folder {file / 'data'}: Not a directory" in line
    assert "--data" in line


@pytest.mark.parametrize("command", ["list", "offline", "online"])
def test_a_broker_that_does_not_run_is_told(command: str) -> None:
    number = [] if command == "list" else ["0"]
    line = refused_line(run("store", command, *number, "--management-url", "http://127.0.0.1:1"))
    assert "no broker answers at http://127.0.0.1:1" in line
    assert "start one with `bendybus serve`" in line


@pytest.mark.parametrize("url", ["localhost:5300", "ftp://localhost", "http://"])
def test_a_management_url_must_be_one(url: str) -> None:
    line = refused_line(run("store", "list", "--management-url", url))
    assert "must be like http://localhost:5300" in line


def test_a_connection_string_must_be_one() -> None:
    line = refused_line(run("store", "list", BENDYBUS_CONNECTION_STRING="Endpoint=sb://localhost"))
    assert "needs SharedAccessKeyName and SharedAccessKey" in line
    assert "the broker prints it when it starts" in line


@pytest.mark.parametrize("command", [("queue", "list"), ("peek", "orders")])
def test_a_key_that_is_given_alone_is_not_printed(command: tuple[str, str]) -> None:
    line = refused_line(run(*command, BENDYBUS_CONNECTION_STRING="c2VjcmV0LWtleQ=="))
    assert "c2VjcmV0" not in line
    assert "the broker prints it when it starts" in line


def test_an_authority_must_be_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("hello")
    for name, reason in (("none.pem", "No such file"), ("ca.pem", "no certificate in PEM form")):
        assert reason in refused_line(run("queue", "list", "--authority", tmp_path / name))


@pytest.mark.parametrize("command", [("send", "orders", "x"), ("receive", "orders")])
def test_where_nobody_answers_is_said_at_once_and_what_to_do(command: tuple[str, ...]) -> None:
    text = (
        "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=Root;SharedAccessKey=SAS_KEY_VALUE;"
        "UseDevelopmentEmulator=true;"
    )
    line = refused_line(run(*command, BENDYBUS_CONNECTION_STRING=text))
    assert "nobody answers AMQP at 127.0.0.1:1" in line
    assert "`bendybus serve`" in line
