"""triage: dead letters grouped by what went wrong, and dealt with by rules, each once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bendybus.client import Client
from bendybus.client.bulk import BulkClient
from bendybus.model.errors import ConfigInvalid
from bendybus.pipelines import triage
from bendybus.pipelines.failure import PipelineFailed
from bendybus.pipelines.progress import Progress
from tests.spark.conftest import Bus
from tests.spark.dead_letters import DEAD, Letter, bodies, bury, lying, options, rules_in

pytestmark = [pytest.mark.spec("R9.2"), pytest.mark.timeout(240)]

TIMEOUTS = [
    Letter(b"t%d" % at, "Timeout", f"Timeout after {at}00 ms for '{at}'", {"attempt": at, "n": at})
    for at in range(12)
]
REFUSALS = [Letter(b"r%d EURO" % at, "Rejected", f"unknown currency {at}") for at in range(8)]
OTHERS = [Letter(b"o%d" % at) for at in range(3)]


@pytest.fixture
def client(bus: Bus) -> Iterator[Client]:
    with Client.from_connection_string(bus.connection_string) as opened:
        yield opened


def run(spark: SparkSession, chosen: triage.Options) -> dict[str, Any]:
    """Run the pipeline; what it returns must be JSON, as the command prints it."""
    result = triage.run(spark, chosen, Progress(spark, lambda _: None))
    return dict(json.loads(json.dumps(result)))


def test_failures_are_grouped_counted_and_shown(
    spark: SparkSession, bus: Bus, client: Client, is_partitioned: bool, tmp_path: Path
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    bury(client, queue, TIMEOUTS + REFUSALS + OTHERS)
    page = tmp_path / "report.html"

    result = run(spark, options(bus, queue, report=page))

    assert (result["dead_letters"], result["unmatched"], result["rules"]) == (23, 23, [])
    assert [
        (each["place"], each["dead_letter_reason"], each["exception_text"], each["messages"])
        for each in result["groups"]
    ] == [
        (queue, "Timeout", "Timeout after <n> ms for <text>", 12),
        (queue, "Rejected", "unknown currency <n>", 8),
        (queue, None, "", 3),
    ]
    bodies_shown = {each["body"] for each in result["groups"][0]["samples"]}
    assert len(bodies_shown) == 2
    assert bodies_shown <= {letter.body.decode() for letter in TIMEOUTS}
    buckets = result["over_time"]["buckets"]
    assert [sum(each) for each in zip(*(b["by_group"] for b in buckets), strict=True)] == [12, 8, 3]
    text = page.read_text(encoding="utf-8")
    assert "unknown currency &lt;n&gt;" in text
    assert '<svg class="plot"' in text
    assert "12  " in triage.as_text(result)
    assert len(lying(client, queue, DEAD)) == 23


RULES = """\
rules:
  - name: again
    match: {{reason: Timeout, where: "cast(application_properties['n'].value AS INT) < 5"}}
    do: redrive
  - name: mended
    match: {{text: "unknown currency *"}}
    do: edit
    set:
      body: "replace(cast(body AS STRING), 'EURO', 'EUR')"
      subject: "concat('mended ', dead_letter_reason)"
      properties.tries: "1 + delivery_count"
      properties.rate: "1.5"
    remove: [attempt]
  - name: kept
    match: {{reason: Timeout, where: "cast(application_properties['n'].value AS INT) < 8"}}
    do: archive
    into: {folder}/archive
  - name: noise
    match: {{reason: Timeout}}
    do: drop
"""


def test_rules_redrive_edit_archive_and_drop_each_message_once(
    spark: SparkSession, bus: Bus, client: Client, is_partitioned: bool, tmp_path: Path
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    bury(client, queue, TIMEOUTS + REFUSALS + OTHERS)
    rules = rules_in(tmp_path, RULES.format(folder=tmp_path))

    dry = run(spark, options(bus, queue, rules=rules, dry_run=True))
    assert [(each["rule"], each["matched"]) for each in dry["rules"]] == [
        ("again", 5),
        ("mended", 8),
        ("kept", 3),
        ("noise", 4),
    ]
    assert "done" not in dry
    assert len(lying(client, queue, DEAD)) == 23

    result = run(spark, options(bus, queue, rules=rules))

    assert [(each["rule"], each["done"], each["held"]) for each in result["done"]] == [
        ("again", 5, 0),
        ("mended", 8, 0),
        ("kept", 3, 0),
        ("noise", 4, 0),
    ]
    alive = lying(client, queue)
    assert bodies(alive) == bodies_of(
        *(f"t{at}" for at in range(5)), *(f"r{at} EUR" for at in range(8))
    )
    mended = [each for each in alive if each.subject == "mended Rejected"]
    assert len(mended) == 8
    assert {tuple(each.application_properties.items()) for each in mended} == {
        (("tries", 1), ("rate", 1.5))
    }
    assert bodies(lying(client, queue, DEAD)) == bodies_of("o0", "o1", "o2")
    archived = spark.read.parquet(str(tmp_path / "archive"))
    assert sorted(row["body"] for row in archived.collect()) == [b"t5", b"t6", b"t7"]
    assert {row["entity"] for row in archived.collect()} == {queue}

    again = run(spark, options(bus, queue, rules=rules))
    assert [each["done"] for each in again["done"]] == [0, 0, 0, 0]
    assert spark.read.parquet(str(tmp_path / "archive")).count() == 3


def bodies_of(*texts: str) -> dict[bytes, int]:
    return {text.encode(): 1 for text in texts}


def test_dead_letters_of_subscriptions_go_back_to_them_alone(
    spark: SparkSession, bus: Bus, client: Client, is_partitioned: bool, tmp_path: Path
) -> None:
    topic = bus.topic("mails", "others", is_partitioned=is_partitioned)
    bury(client, topic, TIMEOUTS[:6], subscription="mails")
    rules = rules_in(
        tmp_path,
        f"""\
rules:
  - match: {{entity: "{topic}/Subscriptions/m*", text: "Timeout*", where: "message_id < 't3'"}}
    do: edit
    set: {{properties.again: "true"}}
  - match: {{entity: "{topic}/Subscriptions/others"}}
    do: drop
""",
    )

    result = run(spark, options(bus, topic, rules=rules))

    assert [each["done"] for each in result["done"]] == [3, 0]
    again = lying(client, topic, subscription="mails")
    assert bodies(again) == bodies_of("t0", "t1", "t2")
    assert all(each.application_properties["again"] is True for each in again)
    assert len(lying(client, topic, DEAD, subscription="mails")) == 3
    assert len(lying(client, topic, subscription="others")) == 6


def test_messages_that_cannot_go_stay_and_are_told(
    spark: SparkSession, bus: Bus, client: Client, tmp_path: Path
) -> None:
    queue = bus.queue()
    bury(client, queue, TIMEOUTS[:4])
    rules = rules_in(
        tmp_path,
        """\
rules:
  - match: {where: "message_id = 't0'"}
    do: edit
    set: {body: "cast(nullif(message_id, 't0') AS BINARY)"}
  - match: {where: "message_id = 't1'"}
    do: edit
    set: {session_id: "repeat('x', 129)"}
""",
    )

    result = run(spark, options(bus, queue, rules=rules))

    [first, second] = result["done"]
    assert (first["refused"], "no body" in first["refusal"]) == (1, True)
    assert (second["refused"], "more than 128" in second["refusal"]) == (1, True)
    assert len(lying(client, queue, DEAD)) == 4
    assert lying(client, queue) == []


def test_what_somebody_holds_is_left_alone_and_counted(
    spark: SparkSession, bus: Bus, client: Client, tmp_path: Path
) -> None:
    queue = bus.queue()
    bury(client, queue, TIMEOUTS[:6])
    held = client.receiver(queue, sub_queue=DEAD)
    assert len(held.receive(2, 10)) == 2
    rules = rules_in(tmp_path, 'rules: [{match: {text: "*"}, do: drop}]')

    [done] = run(spark, options(bus, queue, rules=rules))["done"]

    assert (done["done"], done["held"]) == (4, 2)
    assert len(lying(client, queue, DEAD)) == 2


def test_an_archive_that_was_cut_off_is_finished_by_the_next_run(
    spark: SparkSession,
    bus: Bus,
    client: Client,
    is_partitioned: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = bus.queue(is_partitioned=is_partitioned)
    bury(client, queue, TIMEOUTS)
    rules = rules_in(
        tmp_path, f'rules: [{{match: {{text: "*"}}, do: archive, into: "{tmp_path}/archive"}}]'
    )
    with monkeypatch.context() as patch:
        patch.setattr(BulkClient, "commit", cut_off)
        with pytest.raises(CutOff):
            run(spark, options(bus, queue, rules=rules))
    # Nobody else gets them meanwhile.
    assert client.receiver(queue, sub_queue=DEAD).receive(1, 0) == []
    bury(client, queue, REFUSALS)

    [done] = run(spark, options(bus, queue, rules=rules))["done"]

    assert done["done"] == 20
    archived = spark.read.parquet(f"{tmp_path}/archive").collect()
    assert sorted(row["body"] for row in archived) == sorted(
        letter.body for letter in TIMEOUTS + REFUSALS
    )
    assert lying(client, queue, DEAD) == []


class CutOff(Exception):
    """The run ends here, as if it was killed."""


def cut_off(*_: object, **__: object) -> None:
    raise CutOff


def test_the_whole_namespace_can_be_looked_at(
    spark: SparkSession, bus: Bus, client: Client
) -> None:
    queue, topic = bus.queue(), bus.topic("mails")
    bury(client, queue, TIMEOUTS[:2])
    bury(client, topic, REFUSALS[:3], subscription="mails")
    result = run(spark, options(bus, "*"))
    found = {
        (each["place"], each["dead_letter_reason"]): each["messages"] for each in result["groups"]
    }
    assert found[queue, "Timeout"] == 2
    assert found[f"{topic}/Subscriptions/mails", "Rejected"] == 3
    assert run(spark, options(bus, f"{topic}/Subscriptions/mails"))["dead_letters"] == 3


@pytest.mark.parametrize(
    ("rule", "place", "why"),
    [
        ('match: {where: "delivry_count > 1"}, do: drop', "1:25", "delivery_count"),
        ('match: {where: "count(*) > 1"}, do: drop', "1:25", "Spark says"),
        ('match: {where: "1 +"}, do: drop', "1:25", "Spark says"),
        ('match: {where: "1"}, do: drop', "1:25", "must be true or false, not int"),
        ('match: {text: "*"}, do: edit, set: {body: "1"}', "1:52", "a text or binary, not int"),
        (
            'match: {text: "*"}, do: edit, set: {to: "array(1)"}',
            "1:50",
            "must be a text, not array",
        ),
        (
            'match: {text: "*"}, do: edit, set: {properties.a: "application_properties"}',
            "1:60",
            "a property cannot be of the type map",
        ),
    ],
)
def test_an_expression_without_meaning_is_told_with_its_place_and_nothing_is_done(
    spark: SparkSession,
    bus: Bus,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    rule: str,
    place: str,
    why: str,
) -> None:
    rules = rules_in(tmp_path, f"rules: [{{{rule}}}]")
    with pytest.raises(ConfigInvalid) as refusal:
        run(spark, options(bus, "nothing", rules=rules))
    assert f"rules.yaml:{place}: " in str(refusal.value)
    assert why in str(refusal.value)
    assert "stacktrace" not in capfd.readouterr().err


def test_an_entity_that_is_not_there_is_told(spark: SparkSession, bus: Bus) -> None:
    with pytest.raises(PipelineFailed, match="nowhere"):
        run(spark, options(bus, "nowhere"))
