"""Why a pipeline could not go on, in the one line that matters."""

import re
from typing import Final

from bendybus.client import errors

_TRACEBACK: Final = "Traceback (most recent call last):"
# Such as `bendybus.client.errors.Unauthorized: the key is wrong`: not indented, a name, a text.
_RAISED: Final = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*): (?P<text>\S.*)$")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w{5}")
_QUERY: Final = re.compile(r"^\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
# How an error begins that Spark has no name for in Python, such as that of a job that was given up.
_IN_JAVA: Final = re.compile(r"^An error occurred while calling \S+\n: (?:[\w.$]+: )?")
# What Spark says of a Python process that ended, or was killed.
_CRASHED: Final = "exited unexpectedly"


class PipelineFailed(Exception):
    """A pipeline could not do what it was asked; the text says why and what to do."""


def reason_of(error: BaseException) -> str:
    """Return what went wrong at the bottom of an error of Spark.

    Spark hands on what a Python process raised as text, with the way that it took through both
    languages. Only the last thing that Python said is for whoever started the pipeline.
    """
    text = _STATE.sub("", str(error)).strip()
    said = _raised_in_python(text)
    if said is not None:
        return said["text"]
    lines = _IN_JAVA.sub("", _QUERY.sub("", text)).splitlines()
    return lines[0].strip() if lines else type(error).__name__


def may_pass(error: BaseException) -> bool:
    """Say whether doing the same again later can help: the broker, or a process, was away."""
    text = str(error.__cause__ or error)
    said = _raised_in_python(text)
    kind = getattr(errors, said["kind"].rpartition(".")[2], None) if said else None
    if isinstance(kind, type) and issubclass(kind, errors.ClientError):
        return kind.default_retryable
    return _CRASHED in text


def _raised_in_python(text: str) -> re.Match[str] | None:
    """Return the last exception in the last traceback."""
    if _TRACEBACK not in text:
        return None
    last: re.Match[str] | None = None
    for line in text.rpartition(_TRACEBACK)[2].splitlines():
        if line.startswith(("\tat ", "Caused by: ", "=== ")):
            break
        found = _RAISED.match(line)
        if found is not None and not found["kind"].startswith(("org.", "java.", "scala.")):
            last = found
    return last
