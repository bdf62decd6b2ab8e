"""Spark's versions before the locked one, each in an environment of its own (scripts/setup-tests).

They run tests of this folder in a process of their own: some of every kind of read, write and
pipeline.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from bendybus.pipelines.java import java_home
from tests.cli.test_refusals import refused_line
from tests.spark.test_pipeline_command import COUNTING
from tests.tidy.tree import ROOT

SECONDS_MAX: Final = 1800
SELECTED: Final[Mapping[str, Sequence[str]]] = {
    "test_batch_reading.py": (
        "test_every_property_of_a_message_is_a_column[partitioned]",
        "test_properties_keep_their_types",
        "test_many_messages_are_read_once_each_in_as_many_tasks_as_wished[partitioned]",
        "test_filters_are_pushed_down_and_change_nothing",
    ),
    "test_batch_writing.py": (
        "test_every_property_is_written[partitioned]",
        "test_a_transaction_is_written_once_however_often_the_job_runs",
        "test_a_task_that_breaks_off_and_is_tried_again_doubles_nothing[partitioned]",
    ),
    "test_consuming.py": (
        "test_what_is_consumed_is_in_the_table_once_and_no_longer_in_the_queue[partitioned]",
        "test_a_stream_that_goes_on_commits_its_last_batch",
        "test_a_batch_that_failed_is_read_again_from_the_checkpoint[True]",
        "test_what_is_done_can_be_committed_by_a_listener_and_by_hand",
    ),
    "test_browsing.py": (
        "test_what_is_browsed_is_in_the_table_once_and_still_in_the_queue[partitioned]",
        "test_a_stream_from_the_latest_sees_what_comes_then",
    ),
    "test_stream_writing.py": (
        "test_a_stream_of_rows_becomes_messages[partitioned]",
        "test_messages_go_from_entity_to_entity_exactly_once",
    ),
    "test_refusals.py": ("test_wrong_options_of_a_read_are_refused",),
    "test_capture.py": (
        "test_a_capture_takes_every_message_once[partitioned]",
        "test_browsing_leaves_everything_where_it_is[partitioned]",
        "test_a_capture_ends_with_what_was_there_whatever_comes_meanwhile",
        "test_browsing_goes_on_over_what_others_have_taken",
        "test_until_empty_goes_on_with_what_came_meanwhile",
    ),
    "test_replay.py": (
        "test_a_replay_sends_every_message_again_in_the_order_of_its_key[partitioned]",
    ),
    "test_transform.py": (
        "test_a_query_sends_what_it_selects_to_another_entity_once[partitioned]",
    ),
    "test_triage.py": ("test_rules_redrive_edit_archive_and_drop_each_message_once[partitioned]",),
    "test_stats.py": ("test_an_entity_is_looked_at_where_it_is[partitioned]",),
    "test_pipeline_command.py": (
        "test_a_program_runs_with_the_packaged_java_where_there_is_no_other",
    ),
    "test_declarative.py": (
        "test_every_run_of_a_project_takes_what_is_new_and_sends_some_of_it_on_once[partitioned]",
    ),
}
# Spark 4.1 does not ask a source how much is waiting.
MORE: Final[Mapping[str, Sequence[str]]] = {
    "4.1": (),
    "4.2": (
        "test_consuming.py::test_a_stream_that_goes_on_reports_its_lag",
        "test_browsing.py::test_a_stream_that_goes_on_reports_its_lag",
    ),
}

READING: Final = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.read.format("servicebus").option("entity", "orders").load()
"""


def python_with(version: str) -> Path:
    """Return a Python that has this Spark."""
    python = ROOT / ".cache" / f"spark-{version}" / "bin" / "python"
    assert python.exists(), "run: scripts/setup-tests prove"
    return python


def run(version: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run that Python, which is to find nothing of the Spark that runs here."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BENDYBUS_", "PYSPARK_", "SPARK_"))
    }
    here = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [python_with(version), *arguments],
        env={**kept, **here},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


@pytest.mark.prove
@pytest.mark.timeout(SECONDS_MAX + 100)
@pytest.mark.spec("R9.1")
@pytest.mark.spec("R9.2")
@pytest.mark.spec("R9.3")
@pytest.mark.parametrize("version", MORE)
def test_an_older_spark_reads_writes_streams_and_runs_pipelines(
    version: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{file}::{name}" for file, each in SELECTED.items() for name in each]
    places = [str(Path(__file__).with_name(each)) for each in (*names, *MORE[version])]
    done = run(version, "-m", "pytest", "--timeout=400", "-m", "", *places)

    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"^Spark (\S+)$", done.stdout, re.MULTILINE)
    assert said is not None
    assert said[1].startswith(f"{version}.")
    outcome = done.stdout.splitlines()[-1].strip("= ")
    assert "skipped" not in outcome
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    with capsys.disabled():
        reporter.write_line(f"Spark {said[1]}: {outcome}")


@pytest.mark.prove
def test_pipelines_and_projects_refuse_a_spark_that_is_too_old(tmp_path: Path) -> None:
    project = tmp_path / "tables"
    assert run("4.0", "-m", "bendybus", "pipeline", "init", project).returncode == 0
    for arguments in ((COUNTING, "10"), (project,)):
        line = refused_line(run("4.0", "-m", "bendybus", "pipeline", "run", *arguments))
        assert re.fullmatch(
            r"bendybus: Spark 4\.0\.\d+ is too old, 4\.1 or newer is needed; install it with:"
            r" pip install 'bendybus\[spark\]' --upgrade",
            line,
        )


@pytest.mark.prove
def test_the_source_refuses_a_spark_that_is_too_old(tmp_path: Path) -> None:
    program = tmp_path / "reading.py"
    program.write_text(READING)
    done = run("4.0", program)
    assert done.returncode != 0
    assert re.search(
        r"SparkTooOld: servicebus needs Spark 4\.1 or newer, and this is 4\.0\.\d+;"
        r" pip install 'bendybus\[spark\]'",
        done.stderr,
    ), done.stderr
