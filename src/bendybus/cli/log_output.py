"""What the broker writes to its log: lines for people, or JSON for programs.

No key and no token ever stands there, whatever an error says; and what repeats is cut short, so
that a client that is refused a thousand times a second does not fill the disk.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TextIO

from bendybus.settings import LogFormat, LogLevel

# So many lines of one kind are written in a while; the rest is counted.
REPEATS_MAX: Final = 20
REPEAT_SECONDS: Final = 10.0
_KINDS_MAX: Final = 1000

_SECRETS: Final = re.compile(
    r"((?:SharedAccessKey|sig|primaryKey|secondaryKey|(?:ssl)?password|\bkey)[\"']?\s*[=:]\s*[\"']?)[^;&\s\"',]+"
    r"|(\bBearer\s+)\S+"
    r"|(\bpostgres(?:ql)?://[^:@/\s]*:)[^@/\s]+(?=@)"
    r"|()\beyJ[\w-]+\.[\w-]+\.[\w-]*",
    re.IGNORECASE,
)
_HIDDEN: Final = "(hidden)"
# What every record has; all else is a field that the caller gave.
_OF_EVERY_RECORD: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "repeated", "taskName"}
)


def hide_secrets(text: str) -> str:
    """Return the text without keys, signatures and tokens."""
    return _SECRETS.sub(
        lambda found: next((each for each in found.groups() if each), "") + _HIDDEN, text
    )


def write_log(
    log_format: LogFormat,
    level: LogLevel,
    stream: TextIO | None = None,
    *,
    worker: int | None = None,
) -> logging.Handler:
    """Write what the broker says from now on to standard error; a worker, with its number."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if log_format is LogFormat.JSON else TextLines())
    handler.addFilter(FewRepeats())
    if worker is not None:
        handler.addFilter(partial(_note_worker, worker))
    root = logging.getLogger("bendybus")
    root.setLevel(level.value.upper())
    root.propagate = False
    # A worker has that of the process that made it.
    root.handlers = [handler]
    return handler


def _note_worker(worker: int, record: logging.LogRecord) -> bool:
    record.worker = worker
    return True


class FewRepeats(logging.Filter):
    """Lets so many records of a kind through in a while; the next one tells how many did not."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        # Of each kind: when the while began, how many came in it, how many were left out.
        self._kinds: dict[tuple[str, str], tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a record is written."""
        kind = record.name, str(record.msg)
        now = self._monotonic()
        began, count, left_out = self._kinds.get(kind, (now, 0, 0))
        if now - began >= REPEAT_SECONDS:
            began, count = now, 0
        if count >= REPEATS_MAX:
            self._kinds[kind] = began, count, left_out + 1
            return False
        if len(self._kinds) >= _KINDS_MAX:
            self._kinds.clear()
        self._kinds[kind] = began, count + 1, 0
        record.repeated = left_out
        return True


class JsonLines(logging.Formatter):
    """One object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        entry: dict[str, Any] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(_without_secrets(entry), default=str, ensure_ascii=False)


class TextLines(logging.Formatter):
    """A line to read; the lines of a traceback follow it."""

    def format(self, record: logging.LogRecord) -> str:
        """Write a record."""
        fields = "".join(f" {name}={value}" for name, value in fields_of(record).items())
        message = record.getMessage().replace("\n", " ")
        lines = f"{_moment(record)} {record.levelname.lower()}: {message}{fields}"
        if record.exc_info:
            lines += f"\n{self.formatException(record.exc_info)}"
        return hide_secrets(lines)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what the caller said beside the message, and how many like it were left out."""
    fields = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
    left_out = getattr(record, "repeated", 0)
    return {**fields, "left_out": left_out} if left_out else fields


def _without_secrets(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        name: hide_secrets(value) if isinstance(value, str) else value
        for name, value in entry.items()
    }


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
