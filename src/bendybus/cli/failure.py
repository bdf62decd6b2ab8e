"""How a command fails: one line on standard error that says what to do, and exit code 1."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from bendybus.cli.harmless import harmless
from bendybus.model.errors import BusError, StartRefused


class CommandFailed(Exception):
    """A command could not do what it was asked; the text says why and what to do."""


@contextmanager
def ending_in_one_line() -> Iterator[None]:
    """Turn what users can put right into a line; let defects show their traceback."""
    try:
        yield
    except (BusError, StartRefused, CommandFailed) as error:
        _end(str(error))
    except OSError as error:
        _end(_describe(error))
    except BaseExceptionGroup as group:
        # Tasks of the broker fail as a group; a refusal to start is alone in it.
        causes = _leaves(group)
        for cause in causes:
            if isinstance(cause, StartRefused):
                _end(str(cause))
        for cause in causes:
            if isinstance(cause, OSError):
                _end(_describe(cause))
        raise


def _describe(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            "a port is used by another process; stop it or choose another with --amqp-port and"
            f" --http-port ({error.strerror})"
        )
    text = error.strerror or str(error)
    return f"{error.filename}: {text}" if error.filename else text


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


def _end(message: str) -> NoReturn:
    typer.echo(f"bendybus: {harmless(message)}", err=True)
    raise SystemExit(1) from None


def say_the_rest() -> None:
    """Write what is still to be written; if nobody reads any more, that is no failure.

    Left to the interpreter, it would end with 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def end_at_once(code: int) -> NoReturn:
    """End without closing anything. Safe at any moment: what was accepted is on disk already."""
    os._exit(code)
