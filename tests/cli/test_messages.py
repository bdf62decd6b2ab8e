"""Messages sent, received and looked at from the command line, against a real broker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import SECONDS_MAX, environment, run, serving

NAMESPACE = """
UserConfig:
  Namespaces:
    - Name: sbemulatorns
      Queues:
        - Name: orders
        - Name: events
          Properties: {EnablePartitioning: true}
"""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("broker")
    config = folder / "namespace.yaml"
    config.write_text(NAMESPACE)
    with serving(folder, "--config", config) as broker:
        port = broker.ready["amqp_port"]
        yield (
            f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        )


def command(connection: str, *arguments: str) -> str:
    """Run a command that succeeds, and return what it printed."""
    done = run(*arguments, BENDYBUS_CONNECTION_STRING=connection)
    assert done.returncode == 0, done.stderr
    return done.stdout


def received(connection: str, *arguments: str) -> list[dict[str, Any]]:
    """Receive as a program would."""
    text = command(connection, "receive", *arguments, "--wait", "0.5", "--output", "json")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("queue", ["orders", "events"])
def test_what_was_sent_is_received_once(connection: str, queue: str) -> None:
    assert command(connection, "send", queue, "one", "two", "--key", "k") == "2 sent\n"
    assert [each["body"]["text"] for each in received(connection, queue)] == ["one", "two"]
    assert received(connection, queue) == []


def test_every_line_of_standard_input_is_a_message(connection: str) -> None:
    lines = [f"line {number}" for number in range(450)]
    done = subprocess.run(
        [sys.executable, "-m", "bendybus", "send", "orders"],
        input="\n".join(lines) + "\n",
        env=environment(BENDYBUS_CONNECTION_STRING=connection),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    assert done.stdout == "450 sent\n"
    assert [each["body"]["text"] for each in received(connection, "orders")] == lines


def test_what_the_options_say_is_in_the_message(connection: str) -> None:
    options = ["--id", "m-1", "--session", "s", "--subject", "greeting", "--property", "colour=red"]
    command(connection, "send", "orders", "hello", *options, "--content-type", "text/plain")
    [message] = received(connection, "orders")
    assert (message["message_id"], message["session_id"]) == ("m-1", "s")
    assert (message["subject"], message["content_type"]) == ("greeting", "text/plain")
    assert message["application_properties"] == {"colour": "red"}


def test_a_peek_leaves_everything_as_it_was(connection: str) -> None:
    command(connection, "send", "events", *[f"{number}" for number in range(20)])
    for order in ("--from=0", "--merged"):
        shown = command(connection, "peek", "events", "--count", "20", order).splitlines()
        assert sorted(int(line.split()[-1]) for line in shown) == list(range(20))
    assert len(received(connection, "events")) == 20


def test_a_message_can_be_sent_to_the_dead_letters_and_read_there(connection: str) -> None:
    command(connection, "send", "orders", "bad")
    [message] = received(connection, "orders", "--settle", "dead-letter", "--count", "1")
    assert message["body"] == {"text": "bad"}
    shown = command(connection, "peek", "orders", "--dead-letter")
    assert "reason=Rejected" in shown
    assert "bad" in shown
    assert len(received(connection, "orders", "--dead-letter")) == 1


@pytest.mark.parametrize("queue", ["orders", "events"])
def test_a_purge_deletes_what_it_names_and_nothing_else(connection: str, queue: str) -> None:
    command(connection, "send", queue, "one", "two", "three")
    command(connection, "send", queue, "later", "--at", "2099-01-01T00:00:00")
    received(connection, queue, "--settle", "dead-letter", "--count", "1")
    assert command(connection, "purge", queue, "--yes") == "2 deleted\n"
    assert command(connection, "purge", queue, "--dead-letter", "--yes") == "1 deleted\n"
    assert "later" in command(connection, "peek", queue)
    assert command(connection, "purge", queue, "--state", "scheduled", "--yes") == "1 deleted\n"
    assert command(connection, "peek", queue) == ""


def test_lines_need_not_be_text(connection: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"\xff\xfe\r\nplain\n")
    command(connection, "send", "orders", "--file", str(lines))
    bodies = [each["body"] for each in received(connection, "orders")]
    assert bodies == [{"base64": "//4="}, {"text": "plain"}]


def test_a_purge_asks_first(connection: str) -> None:
    command(connection, "send", "orders", "one")
    refused = run("purge", "orders", BENDYBUS_CONNECTION_STRING=connection)
    assert refused.returncode == 1
    assert refused.stderr == "bendybus: to delete all active messages of orders, say --yes\n"
    some = run("purge", "orders", "--count", "1", BENDYBUS_CONNECTION_STRING=connection)
    assert "those active messages" in some.stderr
    assert command(connection, "purge", "orders", "--yes") == "1 deleted\n"


def test_a_refusal_ends_in_one_line(connection: str) -> None:
    done = run("send", "nowhere", "x", BENDYBUS_CONNECTION_STRING=connection)
    assert done.returncode == 1
    assert "could not be found" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_key_is_told_with_what_to_do(connection: str) -> None:
    wrong = connection.replace("SAS_KEY_VALUE", "not-the-key-of-it")
    done = run("send", "orders", "x", BENDYBUS_CONNECTION_STRING=wrong)
    assert done.returncode == 1
    assert "--connection-string" in done.stderr
    assert "not-the-key-of-it" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("send", "orders", "x", "--property", "red"), "must be like colour=red"),
        (("send", "orders", "x", "y", "--id", "1"), "--id is for a single message"),
        (("peek", "orders", "--connection-string", "Endpoint=?"), "the broker prints it"),
    ],
)
def test_wrong_options_are_told(connection: str, arguments: tuple[str, ...], reason: str) -> None:
    done = run(*arguments, BENDYBUS_CONNECTION_STRING=connection)
    assert done.returncode == 1
    assert reason in done.stderr
