"""What a run leaves behind can be read again, and leaves alone what it did not write."""

import json
from datetime import UTC, datetime
from pathlib import Path

from bench.machine import Machine
from bench.page import marks, write_between_marks
from bench.processes import CpuShares
from bench.promises import PARTITIONED, judge
from bench.readings import Figure, Reading, Readings, Subject
from bench.report import (
    Outcome,
    append_history,
    cpu_table,
    figures_table,
    promises_table,
    readings_tables,
)

SEND = Subject(Figure.SEND, PARTITIONED, 200)
RECEIVE = Subject(Figure.RECEIVE, "rabbitmq quorum", 200)
MACHINE = Machine("a processor", 2, 24.0, "6.1", "ext4", 0.3, 0.1)


def outcome() -> Outcome:
    readings = Readings()
    for rate in (3_000.0, 1_000.0, 2_000.0):
        readings.add([Reading(SEND, rate, CpuShares(broker_cores=1.5, client_cores=0.25))])
    readings.add([Reading(RECEIVE, 0.5)])
    return Outcome(
        at=datetime(2025, 1, 2, 3, 4, tzinfo=UTC),
        part="peer",
        size="full",
        versions={"bendybus": "abc"},
        machine=MACHINE,
        readings=readings,
        verdicts=judge(readings, ["idle"]),
    )


def test_a_row_is_a_figure_and_a_column_a_queue() -> None:
    assert figures_table(outcome().readings) == [
        ["median of the rounds", "unit", PARTITIONED, "rabbitmq quorum"],
        ["send, 200 B", "/s", "2,000", "-"],
        ["receive, 200 B", "/s", "-", "0.50"],
    ]


def test_cores_are_shown_only_where_they_were_read() -> None:
    assert cpu_table(outcome().readings) == [
        ["cores: broker + clients", PARTITIONED],
        ["send, 200 B", "1.50 + 0.25"],
    ]


def test_where_no_cores_were_read_there_is_no_table_of_them() -> None:
    readings = Readings()
    readings.add([Reading(RECEIVE, 0.5)])
    assert readings_tables(readings) == [figures_table(readings)]


def test_a_promise_that_was_not_measured_is_shown_as_failed() -> None:
    [_, row] = promises_table(outcome().verdicts)
    assert row == ["memory per idle connection, KB", "<= 60", "-", "FAIL"]


def test_the_runs_of_a_day_are_kept_in_one_file(tmp_path: Path) -> None:
    append_history(tmp_path, outcome())
    path = append_history(tmp_path, outcome())
    runs = json.loads(path.read_text())
    assert path.name == "2025-01-02.json"
    assert [run["readings"][0]["rounds"] for run in runs] == [[3_000, 1_000, 2_000]] * 2


def test_what_is_around_the_marks_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    first, other = "\nold\n".join(marks("first")), "\nkept\n".join(marks("other"))
    page.write_text(f"before\n{first}\nbetween\n{other}\nafter\n")
    write_between_marks(page, ["new"], "first")
    write_between_marks(page, ["newer"], "first")
    changed = "\n\nnewer\n\n".join(marks("first"))
    assert page.read_text() == f"before\n{changed}\nbetween\n{other}\nafter\n"
