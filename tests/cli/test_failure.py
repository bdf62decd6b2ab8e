"""Which errors become one line, and which show their traceback."""

import errno
import os

import pytest

from bendybus.cli.failure import CommandFailed, ending_in_one_line
from bendybus.model.errors import BusError, DataFolderInUse, QuotaExceeded

TAKEN = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DataFolderInUse("the folder is in use"), "the folder is in use"),
        (QuotaExceeded("full"), "full"),
        (CommandFailed("no broker"), "no broker"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EACCES, "Permission denied", "x.db"), "x.db: Permission denied"),
        (OSError("odd"), "odd"),
        (TAKEN, "a port is used by another process; stop it or choose another with --amqp-port"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [DataFolderInUse("deep")])]), "deep"),
        (ExceptionGroup("tasks", [TAKEN]), "a port is used by another process"),
        (ExceptionGroup("tasks", [TAKEN, DataFolderInUse("the cause")]), "the cause"),
    ],
)
def test_what_users_can_put_right_is_one_line(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended, ending_in_one_line():
        raise error
    assert ended.value.code == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"bendybus: {line}")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    "defect", [KeyError("x"), ExceptionGroup("tasks", [ValueError(), TypeError()])]
)
def test_a_defect_shows_itself_whole(defect: Exception) -> None:
    with pytest.raises(type(defect)), ending_in_one_line():
        raise defect


def test_the_base_of_refusals_counts_as_one() -> None:
    with pytest.raises(SystemExit), ending_in_one_line():
        raise BusError("any")
