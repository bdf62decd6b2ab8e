"""What users are told of an error that went through Python, Java and Python again."""

import pytest

from bendybus.pipelines.failure import PipelineFailed, may_pass, reason_of

IN_A_SOURCE = """\
[STREAM_FAILED] Query [id = 5f1c, runId = 9d6e] terminated with exception: \
[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source performs \
latestOffset: Traceback (most recent call last):
  File "/somewhere/worker.py", line 3, in func
    offset = reader.latestOffset()
ValueError: a first cause: of no interest

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/somewhere/reader.py", line 7, in latestOffset
    raise Refused(text)
bendybus.client.errors.Unauthorized: the key is wrong: ask for another
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 5f1c, runId = 9d6e]
Current State: ACTIVE"""

IN_A_TASK = """\
Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/somewhere/worker.py", line 9, in main
    process()
pyspark_servicebus.errors.RowRefused: row 7 has no session id

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
Caused by: java.io.EOFException: nothing of interest
\tat java.base/java.lang.Thread.run(Thread.java:840)"""

IN_SPARK = """\
[PATH_NOT_FOUND] Path does not exist: file:/nowhere. SQLSTATE: 42K03;
'Relation"""

IN_JAVA = """\
An error occurred while calling o57.save.
: org.apache.spark.SparkException: no room
\tat org.apache.spark.Here(Here.scala:1)"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (IN_A_SOURCE, "the key is wrong: ask for another"),
        (IN_A_TASK, "row 7 has no session id"),
        (IN_SPARK, "[PATH_NOT_FOUND] Path does not exist: file:/nowhere.;"),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: no room",
            "no room",
        ),
        (
            IN_JAVA,
            "no room",
        ),
        ("", "RuntimeError"),
    ],
    ids=["a source", "a task", "Spark itself", "a stream", "Java", "nothing"],
)
def test_the_reason_is_what_was_said_last_by_whoever_refused(text: str, reason: str) -> None:
    assert reason_of(RuntimeError(text)) == reason


def raised(kind: str) -> str:
    return f"Traceback (most recent call last):\n  File 'x'\n{kind}: what was said\n"


@pytest.mark.parametrize(
    ("text", "is_passing"),
    [
        (raised("bendybus.client.errors.ConnectionLost"), True),
        (raised("bendybus.client.errors.ServerBusy"), True),
        (raised("bendybus.client.errors.Unauthorized"), False),
        (raised("ValueError"), False),
        ("Python worker exited unexpectedly (crashed)", True),
        ("[PATH_NOT_FOUND] Path does not exist", False),
    ],
)
def test_only_what_passes_by_itself_is_worth_another_try(text: str, is_passing: bool) -> None:
    assert may_pass(RuntimeError(text)) is is_passing
    failed = PipelineFailed("one line")
    failed.__cause__ = RuntimeError(text)
    assert may_pass(failed) is is_passing
