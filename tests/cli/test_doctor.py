"""`bendybus doctor`, `status` and `session` against a real broker that gets ill."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import serving
from tests.cli.managing import KEY, Commands


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    with serving(tmp_path) as broker:
        yield Commands(broker.ready["amqp_port"], broker.ready["http_port"])


def test_a_healthy_broker_has_nothing_wrong(commands: Commands) -> None:
    found = commands.json("doctor")
    assert {each["verdict"] for each in found} == {"good"}
    assert any("takes the key" in each["what"] for each in found)
    assert any("AMQP answers" in each["what"] for each in found)
    assert any("2 messaging stores are online" in each["what"] for each in found)


@pytest.mark.spec("R7.2")
def test_what_is_wrong_is_said_with_what_to_do(commands: Commands) -> None:
    commands.text("queue", "create", "-n", "orders", "--enable-partitioning", "true")
    commands.text("queue", "create", "-n", "shut", "--status", "Disabled")
    commands.text("send", "orders", "bad")
    commands.text("receive", "orders", "--settle", "dead-letter")
    commands.text("store", "offline", "1")
    code, output, _ = commands.run("doctor")
    assert code == 1
    assert "store 1 is offline" in output
    assert "`bendybus store online 1`" in output
    assert "'orders' has fragments that cannot be reached" in output
    assert "'shut' is Disabled" in output
    page = commands.text("status")
    assert "1 of 2 stores online" in page
    assert "Limited" in page
    commands.text("store", "online", "1")
    code, output, _ = commands.run("doctor")
    assert code == 0, "warnings are no failure"
    assert "'orders' has 1 dead letters" in output
    status = commands.json("status")
    [orders] = [each for each in status["entities"] if each["name"] == "orders"]
    assert orders["countDetails"]["deadLetterMessageCount"] == 1


def test_a_wrong_key_and_a_broker_that_is_not_there_are_found(commands: Commands) -> None:
    wrong = commands.connection.replace(KEY, "not-the-key-of-it")
    code, output, _ = commands.run("doctor", connection=wrong)
    assert code == 1
    assert "right Manage" in output
    commands.url = "http://127.0.0.1:1"
    code, output, _ = commands.run("doctor")
    assert code == 1
    assert "bendybus serve" in output


def test_sessions_are_listed_and_their_state_is_read_and_set(commands: Commands) -> None:
    commands.text("queue", "create", "-n", "carts", "--enable-session", "true")
    commands.text("send", "carts", "one", "--session", "anna")
    assert commands.text("session", "list", "carts") == "anna\n"
    where = ("carts", "--session-id", "anna")
    commands.text("session", "update", *where, "--state", "half done")
    assert commands.text("session", "show", *where) == "half done\n"
    shown = json.loads(commands.text("session", "show", *where, "--output", "json"))
    assert shown == {"sessionId": "anna", "state": "half done"}
    commands.text("session", "update", *where, "--state", "")
    assert commands.json("session", "show", *where)["state"] is None
