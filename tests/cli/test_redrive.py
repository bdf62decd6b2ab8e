"""Dead letters, peeks, purges and lines of JSON from the command line, against a real broker."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bendybus.cli import app
from bendybus.cli.failure import CommandFailed
from bendybus.cli.redrive_by_hand import ByHand
from bendybus.client import Client, Message, Redrive, SubQueue
from bendybus.client.errors import NotServed
from tests.cli.command import SECONDS_MAX, environment, serving

pytestmark = pytest.mark.spec("R8.2")
NAMESPACE = """
UserConfig:
  Namespaces:
    - Name: sbemulatorns
      Queues:
        - Name: orders
        - Name: events
          Properties: {EnablePartitioning: true}
        - Name: elsewhere
        - Name: held
        - Name: failing
          Properties: {ForwardDeadLetteredMessagesTo: morgue}
        - Name: morgue
      Topics:
        - Name: news
          Subscriptions:
            - Name: all
            - Name: others
"""
QUEUES = pytest.mark.parametrize("queue", ["orders", "events"])
DEAD = SubQueue.DEAD_LETTER


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


@pytest.fixture
def client(connection: str) -> Iterator[Client]:
    with Client.from_connection_string(connection) as client:
        yield client
        for queue in ("orders", "events", "elsewhere"):
            client.receiver(queue).purge()
            client.receiver(queue, sub_queue=DEAD).purge()
        for name in ("all", "others"):
            client.receiver("news", subscription=name).purge()


def command(connection: str, *arguments: str, given: str | None = None) -> str:
    """Run a command that succeeds, in this process, and return what it printed."""
    done = CliRunner().invoke(
        app, arguments, input=given, env={"BENDYBUS_CONNECTION_STRING": connection}
    )
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def refused(connection: str, *arguments: str, given: str | None = None) -> str:
    """Run a command that is refused, and return why."""
    done = CliRunner().invoke(
        app, arguments, input=given, env={"BENDYBUS_CONNECTION_STRING": connection}
    )
    assert isinstance(done.exception, CommandFailed), (done.output, done.exception)
    return str(done.exception)


def bury(client: Client, queue: str, count: int = 10, subscription: str | None = None) -> None:
    """Send messages that say their number, and dead-letter them."""
    messages = [
        Message(
            json.dumps({"order": {"number": number}}).encode(),
            partition_key="k",
            application_properties={"number": number},
        )
        for number in range(count)
    ]
    client.sender(queue).send(messages)
    with client.receiver(queue, subscription=subscription) as receiver:
        left = count
        while left:
            some = receiver.receive(left, 10)
            receiver.dead_letter(some, "Rejected")
            left -= len(some)


def numbers(client: Client, queue: str, **where: Any) -> list[int]:
    """Return the numbers of what a queue holds."""
    shown = client.receiver(queue, **where).peek_merged(1000)
    return sorted(int(str(each.application_properties["number"])) for each in shown)


@QUEUES
def test_dead_letters_go_back(connection: str, client: Client, queue: str) -> None:
    bury(client, queue)
    assert command(connection, "redrive", queue, "--dry-run") == "10 would be redriven\n"
    some = ("--filter", "number < 4", "--reason", "Rejected", "--newer-than", "1h")
    assert command(connection, "redrive", queue, *some) == "4 redriven\n"
    done = json.loads(command(connection, "redrive", queue, "--count", "2", "--output", "json"))
    assert (done["done"], done["unavailable"]) == (2, [])
    assert numbers(client, queue) == [0, 1, 2, 3, 4, 5]
    assert numbers(client, queue, sub_queue=DEAD) == [6, 7, 8, 9]
    assert command(connection, "redrive", queue, "--older-than", "1h") == "0 redriven\n"
    assert command(connection, "redrive", queue, "--rate", "1000") == "4 redriven\n"


def test_they_are_changed_and_go_elsewhere(connection: str, client: Client) -> None:
    bury(client, "orders", 3)
    change = ("--set", "number = 7", "--set", "sys.Label = 'again'", "--remove", "other")
    command(connection, "redrive", "orders", "--to", "elsewhere", *change)
    receiver = client.receiver("elsewhere")
    again: list[Any] = []
    while len(again) < 3:
        again += receiver.receive(3, 10)
    assert {each.application_properties["number"] for each in again} == {7}
    assert {each.subject for each in again} == {"again"}
    receiver.complete(again)


def test_those_of_a_subscription_go_back_to_it_alone(connection: str, client: Client) -> None:
    bury(client, "news", 3, subscription="all")
    command(connection, "redrive", "news", "--subscription", "all")
    assert numbers(client, "news", subscription="all") == [0, 1, 2]
    assert numbers(client, "news", subscription="others") == [0, 1, 2]


def test_forwarded_ones_go_back_to_where_they_came_from(connection: str, client: Client) -> None:
    bury(client, "failing", 3)
    redriven = 0
    while redriven < 3:  # They take their time to the queue where dead letters are gathered.
        done = command(connection, "redrive", "morgue", "--forwarded", "--output", "json")
        redriven += json.loads(done)["done"]
    receiver = client.receiver("failing")
    again: list[Any] = []
    while len(again) < 3:
        again += receiver.receive(3, 10)
    assert sorted(each.application_properties["number"] for each in again) == [0, 1, 2]
    receiver.complete(again)


def test_on_a_terminal_it_shows_how_far_it_is(connection: str, client: Client) -> None:
    bury(client, "orders")
    terminal, others_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "bendybus", "redrive", "orders"],
        env=environment(BENDYBUS_CONNECTION_STRING=connection, TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=others_end,
    ) as process:
        os.close(others_end)
        shown = b""
        with contextlib.suppress(OSError):  # How a terminal ends.
            while some := os.read(terminal, 65536):
                shown += some
        os.close(terminal)
        printed, _ = process.communicate(timeout=SECONDS_MAX)
    assert printed == b"10 redriven\n"
    assert b"redriving 10" in shown
    assert b"10/10" in shown


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--filter", "number ="), "--filter 'number =': syntax error at character 9"),
        (("--set", "nonsense"), "--set and --remove make 'SET nonsense': syntax error"),
        (("--remove", "sys.SequenceNumber"), "read-only"),
        (("--to", "nowhere"), "could not be found"),
        (("--older-than", "yesterday"), "must be like 90s"),
        (("--forwarded", "--to", "elsewhere"), "use it alone"),
    ],
)
def test_what_cannot_be_is_told(
    connection: str, client: Client, options: tuple[str, ...], reason: str
) -> None:
    bury(client, "orders", 1)
    assert reason in refused(connection, "redrive", "orders", *options)
    assert numbers(client, "orders", sub_queue=DEAD) == [0]


# Looking and deleting


@pytest.mark.spec("R3.5")
@QUEUES
def test_a_peek_chooses(connection: str, client: Client, queue: str) -> None:
    bury(client, queue)
    for options, expected in [
        (("--state", "dead-letter", "--filter", "number >= 7"), [7, 8, 9]),
        (("--dead-letter", "--json-path", "$.order.number < 2"), [0, 1]),
        (("--dead-letter", "--merged", "--filter", "DeadLetterReason = 'Rejected'"), [*range(10)]),
        (("--dead-letter", "--state", "deferred"), []),
    ]:
        shown = command(connection, "peek", queue, *options, "--output", "json").splitlines()
        found = [json.loads(line)["application_properties"]["number"] for line in shown]
        assert found == expected


@pytest.mark.spec("R3.5")
def test_a_merged_peek_goes_by_time_over_all_fragments(connection: str, client: Client) -> None:
    sender = client.sender("events")
    for number in range(40):
        sender.send(Message(b"%d" % number, application_properties={"number": number}))
    shown = command(connection, "peek", "events", "--merged", "--count", "30", "--output", "json")
    times = [json.loads(line)["enqueued_time"] for line in shown.splitlines()]
    assert len(times) == 30
    assert times == sorted(times)
    century = datetime(2099, 1, 1, tzinfo=UTC)
    later = Message(b"x", scheduled_time=century, application_properties={"number": 40})
    [scheduled] = sender.schedule(later)
    chosen = ("--merged", "--filter", "number >= 35", "--count", "4", "--output", "json")
    shown = command(connection, "peek", "events", *chosen)
    numbered = [json.loads(line)["application_properties"]["number"] for line in shown.splitlines()]
    sender.cancel_scheduled([scheduled])
    assert numbered == [35, 36, 37, 38], "what is scheduled hides nothing"


@QUEUES
def test_a_purge_chooses(connection: str, client: Client, queue: str) -> None:
    bury(client, queue)
    these = ("--dead-letter", "--filter", "number < 4")
    assert command(connection, "purge", queue, *these, "--dry-run") == "4 would be deleted\n"
    assert command(connection, "purge", queue, *these, "--yes") == "4 deleted\n"
    assert numbers(client, queue, sub_queue=DEAD) == [4, 5, 6, 7, 8, 9]
    old = ("--dead-letter", "--older-than", "1h", "--yes")
    assert command(connection, "purge", queue, *old) == "0 deleted\n"


# Lines of JSON


@QUEUES
def test_what_was_received_can_be_sent_again(
    connection: str, client: Client, queue: str, tmp_path: Path
) -> None:
    client.sender(queue).send(
        [Message(b"\xff", subject="odd", partition_key="k"), Message("text", partition_key="k")]
    )
    lines = command(connection, "receive", queue, "--wait", "0.5", "--output", "json")
    saved = tmp_path / "saved.jsonl"
    saved.write_text(lines)
    assert command(connection, "send", queue, "--json", "--file", str(saved)) == "2 sent\n"
    again = command(connection, "receive", queue, "--wait", "0.5", "--output", "json")

    def said(text: str) -> list[dict[str, Any]]:
        kept = ("message_id", "body", "subject", "partition_key")
        return [
            {name: each.get(name) for name in kept} for each in map(json.loads, text.splitlines())
        ]

    assert said(again) == said(lines)


def test_options_say_what_a_line_does_not(connection: str, client: Client) -> None:
    given = '{"body": "a", "subject": "own"}\n{"body": "b"}\n'
    options = ("--subject", "given", "--property", "colour=red")
    command(connection, "send", "orders", "--json", *options, given=given)
    shown = client.receiver("orders").peek(2)
    assert [each.subject for each in shown] == ["own", "given"]
    assert {each.application_properties["colour"] for each in shown} == {"red"}


def test_a_bad_line_is_named_and_what_was_sent_is_said(connection: str) -> None:
    given = '{"body": "a"}\n{"bodi": "b"}\n'
    told = refused(connection, "send", "elsewhere", "--json", given=given)
    assert told.startswith("message 2: a message has no 'bodi'")
    assert told.endswith("nothing was sent")


def test_what_is_not_settled_stays(connection: str, client: Client) -> None:
    client.sender("held").send(Message(b"x"))
    command(connection, "receive", "held", "--count", "1", "--settle", "none")
    assert client.count("held") == 1


# At a service that cannot do it by itself


@QUEUES
def test_by_hand_messages_are_moved_in_transactions(
    connection: str, client: Client, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_served(*_: object, **__: object) -> None:
        raise NotServed("There is no operation.")

    bury(client, queue)
    monkeypatch.setattr(Client, "redrive", not_served)
    some = ("--filter", "number < 4", "--set", "again = TRUE", "--rate", "1000")
    assert command(connection, "redrive", queue, *some, "--dry-run") == "4 would be redriven\n"
    assert command(connection, "redrive", queue, *some) == "4 redriven\n"
    assert numbers(client, queue) == [0, 1, 2, 3]
    assert numbers(client, queue, sub_queue=DEAD) == [4, 5, 6, 7, 8, 9]
    [first] = client.receiver(queue).peek(1)
    assert first.application_properties == {"number": 0, "again": True}
    assert command(connection, "redrive", queue, "--count", "2") == "2 redriven\n"


def test_by_hand_nothing_is_doubled_unless_that_is_allowed(client: Client) -> None:
    client.sender("events").send(Message(b"keyless", application_properties={"number": 1}))
    receiver = client.receiver("events")
    receiver.dead_letter(receiver.receive(1, 10), "Rejected")
    receiver.close()

    # A message without a key cannot be part of a transaction at a partitioned queue.
    with pytest.raises(CommandFailed, match="--allow-duplicates"):
        ByHand(client, Redrive(), may_double=False).run("events", None, DEAD, lambda _: None)
    assert numbers(client, "events", sub_queue=DEAD) == [1]
    done = ByHand(client, Redrive(), may_double=True).run("events", None, DEAD, lambda _: None)
    assert done.done == 1
    assert numbers(client, "events") == [1]


def test_by_hand_a_subscription_alone_cannot_be_reached(client: Client) -> None:
    with pytest.raises(CommandFailed, match="say with --to"):
        ByHand(client, Redrive(), may_double=True).run("news", "all", DEAD, lambda _: None)
