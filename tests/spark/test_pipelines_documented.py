"""The commands on the page about pipelines do what the page says."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from pyspark.sql import SparkSession

from bendybus.atom.properties import Kind
from bendybus.cli.pipeline_command import pipeline_signature, read_options
from bendybus.client.message import Message
from bendybus.pipelines.options import BusOptions
from bendybus.pipelines.program import Loaded, find_program
from bendybus.pipelines.progress import Progress
from tests.spark.conftest import Bus
from tests.spark.piping import left, received, send
from tests.tidy.tree import ROOT

PAGE: Final = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
# Those that only show how to ask for help are left out.
COMMANDS: Final = [
    line.strip()
    for line in PAGE.splitlines()
    if line.startswith("    bendybus pipeline run ") and not line.endswith("--help")
]
MESSAGES: Final = 10


def code(language: str) -> str:
    """Return the example in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def understood(command: str, folder: Path) -> tuple[str, Loaded, BusOptions]:
    """Read a command as the command line does, with files in a folder of the test."""
    _, _, _, name, *arguments = shlex.split(command.replace("/data/", f"{folder}/"))
    loaded = find_program(name).load()
    said: dict[str, Any] = {}

    def note(**given: Any) -> None:
        said.update(given)

    note.__signature__ = pipeline_signature(loaded.options)  # type: ignore[attr-defined]  # read by typer
    alone = typer.Typer(add_completion=False)
    alone.command(name)(note)
    typer.main.get_command(alone).main(arguments, standalone_mode=False)
    return name, loaded, read_options(loaded.options, said)


def ran(command: str, spark: SparkSession, bus: Bus, folder: Path) -> Mapping[str, Any]:
    name, loaded, options = understood(command, folder)
    here: dict[str, Any] = {
        "connection_string": bus.connection_string,
        "flight_endpoint": bus.flight_endpoint,
    }
    if name == "capture":
        here["management_url"] = bus.broker.management_url
    return loaded.run(spark, replace(options, **here), Progress(spark, lambda _: None))


@pytest.mark.prove
@pytest.mark.spec("R9.2")
def test_the_examples_on_the_page_run_one_after_the_other(
    spark: SparkSession, bus: Bus, tmp_path: Path
) -> None:
    for queue in ("invoices", "invoices-again", "paid"):
        bus.administration.create(Kind.QUEUE, queue, {"enable_partitioning": True})
    bus.administration.create(Kind.TOPIC, "news", {})
    for subscription in ("mails", "history"):
        bus.administration.create(Kind.SUBSCRIPTION, subscription, {}, topic="news")
    (tmp_path / "paid.sql").write_text(code("sql"))
    (tmp_path / "rules.py").write_text(code("python"))
    came: list[Mapping[str, Any]] = []
    for command in COMMANDS:
        send(bus, "invoices", some_invoices())
        send(bus, "news", [Message(b"hello")])
        came.append(ran(command, spark, bus, tmp_path))

    first, second, dead, browsed, history, dry, by_key, by_subject, mails, paid, priced = came
    assert (first["captured"], second["captured"]) == (MESSAGES, MESSAGES)
    assert (dead["captured"], browsed["captured"], history["captured"]) == (0, 2 * MESSAGES, 5)
    assert dry["would_send"]["messages"] == 2 * MESSAGES
    assert (by_key["sent"], by_subject["sent"], mails["sent"]) == (4, 10, 5)
    assert left(bus, "invoices-again") == 4 + 10
    assert left(bus, "news", "mails") == len(COMMANDS) + 5
    assert (paid["read"], priced["read"]) == (8 * MESSAGES, MESSAGES)
    assert {each.subject for each in received(bus, "paid", 40)} == {"PAID"}
    prices = spark.read.parquet(str(tmp_path / "priced")).collect()
    assert [row["price"] for row in prices] == ["5"] * MESSAGES


def some_invoices() -> list[Message]:
    return [
        Message(
            b'{"price": 5}',
            partition_key=f"customer-{6 + number % 5}",
            subject="paid" if number % 2 else "open",
        )
        for number in range(MESSAGES)
    ]
