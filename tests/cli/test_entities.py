"""`bendybus queue`, `topic`, `subscription`, `rule`, `session`, `namespace`, at a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import serving
from tests.cli.managing import KEY, Commands


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder: Path = tmp_path_factory.mktemp("broker")
    with serving(folder) as broker:
        yield Commands(broker.ready["amqp_port"], broker.ready["http_port"])


@pytest.mark.spec("R1.4")
@pytest.mark.parametrize("partitioned", ["true", "false"])
def test_a_queue_is_made_shown_changed_and_deleted(commands: Commands, partitioned: str) -> None:
    name = f"orders/{partitioned}"
    made = commands.json(
        "queue",
        "create",
        "--name",
        name,
        "--enable-partitioning",
        partitioned,
        "--lock-duration",
        "30s",
        "--max-delivery-count",
        "3",
    )
    assert made["lockDuration"] == "PT30S"
    assert made["maxDeliveryCount"] == 3
    assert made["maxSizeInMegabytes"] == (16384 if partitioned == "true" else 1024)
    assert commands.json("queue", "show", "--name", name)["lockDuration"] == "PT30S"

    changed = commands.json(
        "queue", "update", "-n", name, "--lock-duration", "PT45S", "--user-metadata", "mine"
    )
    assert (changed["lockDuration"], changed["userMetadata"]) == ("PT45S", "mine")
    assert changed["maxDeliveryCount"] == 3, "what was not said stays"
    assert changed["maxSizeInMegabytes"] == made["maxSizeInMegabytes"]
    taken = commands.json("queue", "update", "-n", name, "--user-metadata", "")
    assert taken.get("userMetadata") is None

    listed = commands.json("queue", "list")
    assert name in [each["name"] for each in listed]
    gone = commands.json("queue", "delete", "-n", name, "--yes")
    assert gone == {"name": name, "deleted": True}
    assert name not in [each["name"] for each in commands.json("queue", "list")]


def test_counts_are_shown_by_state(commands: Commands) -> None:
    commands.text("queue", "create", "-n", "counted")
    commands.text("send", "counted", "one", "two")
    shown = commands.json("queue", "show", "-n", "counted")
    assert shown["countDetails"]["activeMessageCount"] == 2
    assert shown["messageCount"] == 2
    table = commands.text("queue", "list")
    assert "counted" in table
    assert "Available" in table


def test_a_queue_that_holds_messages_goes_only_when_it_is_said_so(commands: Commands) -> None:
    commands.text("queue", "create", "-n", "full")
    commands.text("send", "full", "one")
    assert "holds 1 message" in commands.refusal("queue", "delete", "-n", "full")
    assert commands.json("queue", "show", "-n", "full")["messageCount"] == 1
    commands.text("queue", "delete", "-n", "full", "--yes")


def test_a_topic_its_subscriptions_and_their_rules(commands: Commands) -> None:
    commands.text("topic", "create", "-n", "events", "--default-message-time-to-live", "7d")
    commands.text("subscription", "create", "--topic-name", "events", "-n", "audit")
    where = ("--topic-name", "events", "--subscription-name", "audit")
    assert [each["name"] for each in commands.json("rule", "list", *where)] == ["$Default"]
    commands.text("rule", "create", *where, "-n", "red", "--filter-sql-expression", "colour='red'")
    commands.text("rule", "create", *where, "-n", "eu", "--correlation", "label=eu")
    commands.text("rule", "update", *where, "-n", "red", "--action-sql-expression", "SET x = 1")
    assert commands.json("rule", "delete", *where, "-n", "$Default")["deleted"]
    spelled = ("--correlation", "CorrelationId=c", "--correlation", "user.label=mine")
    shown = commands.json("rule", "create", *where, "-n", "odd", *spelled)
    assert shown["filter"] == {"correlation_id": "c", "user.label": "mine"}
    named = ("--label", "l", "--reply-to-session-id", "r", "--correlation-filter-property", "a=b")
    shown = commands.json("rule", "update", *where, "-n", "odd", *named)
    assert shown["filter"] == {"label": "l", "reply_to_session_id": "r", "a": "b"}
    both = (*named, "--filter-type", "TrueFilter")
    assert "has one filter" in commands.refusal("rule", "update", *where, "-n", "odd", *both)
    rules = {each["name"]: each for each in commands.json("rule", "list", *where)}
    assert rules["red"]["filter"] == "colour='red'"
    assert rules["red"]["action"] == "SET x = 1"
    assert rules["eu"] == {
        "name": "eu",
        "filterType": "CorrelationFilter",
        "filter": {"label": "eu"},
        "action": None,
    }
    assert commands.json("topic", "show", "-n", "events")["subscriptionCount"] == 1
    shown = commands.json("subscription", "show", "--topic-name", "events", "-n", "audit")
    assert shown["maxDeliveryCount"] == 10
    commands.text("subscription", "delete", "--topic-name", "events", "-n", "audit", "--yes")
    assert commands.json("subscription", "list", "--topic-name", "events") == []


def test_keys_are_made_used_and_renewed(commands: Commands) -> None:
    commands.text("queue", "create", "-n", "guarded")
    where = ("queue", "authorization-rule")
    commands.text(*where, "create", "--queue-name", "guarded", "-n", "desk", "--rights", "Send")
    [rule] = commands.json(*where, "list", "--queue-name", "guarded")
    assert (rule["name"], rule["rights"]) == ("desk", ["Send"])
    keys = json.loads(
        commands.text(*where, "keys", "list", "--queue-name", "guarded", "-n", "desk")
    )
    renewed = json.loads(
        commands.text(
            *where,
            "keys",
            "renew",
            "--queue-name",
            "guarded",
            "-n",
            "desk",
            "--key",
            "PrimaryKey",
        )
    )
    assert renewed["primaryKey"] != keys["primaryKey"]
    assert renewed["secondaryKey"] == keys["secondaryKey"]

    def send(key: str) -> int:
        connection = commands.connection.replace(
            f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY}",
            f"SharedAccessKeyName=desk;SharedAccessKey={key}",
        )
        code, _, _ = commands.run("send", "guarded", "hello", connection=connection)
        return code

    assert send(renewed["primaryKey"]) == 0
    assert send(keys["primaryKey"]) == 1
    named = ("--queue-name", "guarded", "-n", "desk")
    table = commands.text(*where, "keys", "list", *named, "--output", "table")
    assert renewed["secondaryKey"] in table
    assert commands.json(*where, "delete", *named) == {"name": "desk", "deleted": True}


def test_the_namespace_is_shown(commands: Commands) -> None:
    assert commands.json("namespace", "show")["tier"] == "Standard"
    commands.text("namespace", "exists")
    code, _, errors = commands.run("namespace", "exists", "--name", "another")
    assert code == 1
    assert "the namespace is" in errors
    rules = commands.json("namespace", "authorization-rule", "list")
    assert "RootManageSharedAccessKey" in [each["name"] for each in rules]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("queue", "show", "-n", "nowhere"), "nowhere"),
        (("queue", "create", "-n", "bad", "--lock-duration", "soon"), "--lock-duration"),
        (("queue", "create", "-n", "bad", "--lock-duration", "1h"), "LockDuration"),
        (("queue", "create", "-n", "bad name"), "name"),
        (("queue", "create", "-n", "bad", "--max-size", "17"), "MaxSizeInMegabytes"),
        (("queue", "update", "-n", "nowhere", "--status", "Disabled"), "nowhere"),
        (("subscription", "create", "--topic-name", "no", "-n", "s"), "could not be found"),
        (("rule", "list", "--topic-name", "no", "--subscription-name", "s"), "could not be found"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    commands: Commands, arguments: tuple[str, ...], text: str
) -> None:
    assert text in commands.refusal(*arguments)


def test_a_rule_has_one_filter(commands: Commands) -> None:
    where = ("--topic-name", "t", "--subscription-name", "s", "-n", "r")
    both = ("--filter-sql-expression", "1=1", "--correlation", "label=x")
    assert "one filter" in commands.refusal("rule", "create", *where, *both)


def test_a_wrong_key_is_told_what_to_do(commands: Commands) -> None:
    code, _, errors = commands.run(
        "queue", "list", connection=commands.connection.replace(KEY, "another-key-of-mine")
    )
    assert code == 1
    assert "--connection-string" in errors
    assert "another-key-of-mine" not in errors


def test_a_topic_is_no_queue(commands: Commands) -> None:
    commands.text("topic", "create", "-n", "news")
    assert "is a topic, not a queue" in commands.refusal("queue", "show", "-n", "news")
    assert "is a topic, not a queue" in commands.refusal("queue", "delete", "-n", "news", "--yes")
    assert commands.json("topic", "show", "-n", "news")["name"] == "news"


def test_a_session_is_deleted_with_its_messages_and_its_state(commands: Commands) -> None:
    commands.text("topic", "create", "-n", "carts", "--enable-partitioning", "true")
    made = ("--topic-name", "carts", "-n", "all", "--enable-session", "true")
    commands.text("subscription", "create", *made)
    for customer in ("anna", "bert"):
        commands.text("send", "carts", "one", "two", "--session", customer)
    where = ("carts", "--subscription", "all")
    one = (*where, "--session-id", "anna")
    changed = commands.json("session", "update", *one, "--state", "half done")
    assert changed == {"sessionId": "anna", "state": "half done"}
    assert "say --yes" in commands.refusal("session", "delete", *one)
    assert commands.json("session", "show", *one)["state"] == "half done"

    deleted = commands.json("session", "delete", *one, "--yes")
    assert deleted == {"sessionId": "anna", "deletedMessages": 2}
    assert commands.json("session", "list", *where) == ["bert"]
    assert commands.json("session", "show", *one)["state"] is None


def test_who_forgets_the_session_is_told_the_option(commands: Commands) -> None:
    commands.text("queue", "create", "-n", "baskets", "--enable-session", "true")
    assert "--session" in commands.refusal("receive", "baskets")
    assert "--session" in commands.refusal("send", "baskets", "one")
