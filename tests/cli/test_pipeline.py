"""`bendybus pipeline`: what it says of pipelines without running one."""

import json
import sys
from pathlib import Path

import pytest

from bendybus.pipelines import PIPELINES
from tests.cli.command import run_afresh as run
from tests.cli.test_refusals import refused_line

COUNTING = Path(__file__).parents[1] / "spark" / "counting.py"


def test_every_pipeline_is_listed_with_what_it_does() -> None:
    shown = json.loads(run("pipeline", "list", "--output", "json").stdout)
    assert [each["name"] for each in shown] == list(PIPELINES)
    assert all(each["summary"].endswith(".") for each in shown)
    table = run("pipeline", "list").stdout
    assert all(each["summary"][:40] in table for each in shown)


@pytest.mark.parametrize("arguments", [("list",), ("--help",), ("show", str(COUNTING))])
def test_nothing_of_spark_is_imported_to_say_what_there_is(arguments: tuple[str, ...]) -> None:
    done = run("pipeline", *arguments, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert "bendybus.pipelines.program" in done.stderr
    assert "pyspark" not in done.stderr
    assert "pyarrow" not in done.stderr


def test_a_program_is_copied_to_a_new_file_only(tmp_path: Path) -> None:
    copy = tmp_path / "mine.py"
    assert run("pipeline", "show", COUNTING, "--copy", copy).returncode == 0
    assert copy.read_text() == COUNTING.read_text() == run("pipeline", "show", COUNTING).stdout
    copy.write_text("mine")
    line = refused_line(run("pipeline", "show", COUNTING, "--copy", copy))
    assert "is there already; name a new file" in line
    assert copy.read_text() == "mine"
    line = refused_line(run("pipeline", "show", COUNTING, "--copy", tmp_path / "mine.txt"))
    assert "must end in .py" in line


def test_the_help_of_a_program_teaches_its_options() -> None:
    text = run("pipeline", "run", COUNTING, "--help").stdout
    assert "Count rows that Spark makes, in a stream or in one go." in text
    assert "How far to count." in text
    for option in ("--checkpoint", "--labels", "--master", "--connection-string", "--conf"):
        assert option in text
    assert "--until" not in text, "without a default it is an argument"


def test_an_unknown_pipeline_is_wrong_usage() -> None:
    done = run("pipeline", "run", "captur")
    assert done.returncode == 2
    assert "there is no pipeline 'captur'" in done.stderr
    assert "there is no file nowhere.py" in run("pipeline", "run", "nowhere.py").stderr


def test_a_file_that_is_no_pipeline_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.py"
    file.write_text('"""Something else."""\n')
    assert "is no pipeline: it needs a class Options" in refused_line(run("pipeline", "run", file))
    file.write_text("def run(:\n")
    assert f"{file}, line 1: invalid syntax" in refused_line(run("pipeline", "run", file))


def test_a_wrong_value_is_refused_before_spark_starts() -> None:
    assert "until: 0 is less than 1" in refused_line(run("pipeline", "run", COUNTING, "0"))
    line = refused_line(run("pipeline", "run", COUNTING, "1", "--conf", "memory"))
    assert "--conf: 'memory' is not of the form spark.name=value" in line


def test_a_project_is_made_in_a_new_folder_only(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    printed = run("pipeline", "init", folder).stdout.splitlines()
    assert sorted(printed) == sorted(str(path) for path in folder.rglob("*") if path.is_file())
    text = (folder / "spark-pipeline.yml").read_text()
    assert text.startswith("name: tables\n")
    assert f"storage: {folder.as_uri()}/storage\n" in text
    line = refused_line(run("pipeline", "init", folder))
    assert f"{folder} is not empty; name a new folder" in line


def test_without_spark_it_says_how_to_get_it(tmp_path: Path) -> None:
    # A Python without the packages of this one, but with what the command line itself needs.
    line = refused_line(
        run("pipeline", "run", COUNTING, "1", PYTHONPATH=str(without_spark(tmp_path)))
    )
    assert "pipelines run on Spark; install it with: pip install 'bendybus[spark]'" in line


def without_spark(folder: Path) -> Path:
    """Hide pyspark's metadata, as if it were not installed."""
    import bendybus

    (folder / "sitecustomize.py").write_text(
        "import importlib.metadata as m, sys\n"
        f"sys.path.append({str(Path(bendybus.__file__).parents[1])!r})\n"
        "found = m.version\n"
        "def version(name):\n"
        "    if name == 'pyspark': raise m.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "m.version = version\n"
    )
    assert sys.executable
    return folder
