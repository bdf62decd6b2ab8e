"""The options of the source: which there are, and for what each is.

Spark gives every option as a text, and its name in small letters.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Final

from bendybus.model.suggestion import suggest


class OptionInvalid(ValueError):
    """An option is unknown, malformed, or not for what is being done; nothing was done."""


class Use(Enum):
    """What the source is used for."""

    READ = "spark.read"
    READ_STREAM = "spark.readStream"
    WRITE = "df.write"
    WRITE_STREAM = "df.writeStream"


_READS: Final = frozenset({Use.READ, Use.READ_STREAM})
_WRITES: Final = frozenset({Use.WRITE, Use.WRITE_STREAM})
_ALL: Final = _READS | _WRITES

OPTIONS: Final[Mapping[str, frozenset[Use]]] = {
    "connectionString": _ALL,
    "flightEndpoint": _ALL,
    "authority": _ALL,
    "timeoutSeconds": _ALL,
    "entity": _ALL,
    "subscription": _ALL,
    "subQueue": _READS,
    "mode": _READS,
    "states": _READS,
    "startingOffsets": _READS,
    "startingTimestamp": _READS,
    "endingOffsets": _READS,
    "endingTimestamp": frozenset({Use.READ}),
    "numTasks": _READS,
    "skipOffline": _READS,
    "pushdown": frozenset({Use.READ}),
    "reader": frozenset({Use.READ_STREAM}),
    "readerToken": frozenset({Use.READ_STREAM}),
    "maxMessagesPerTrigger": frozenset({Use.READ_STREAM}),
    "maxBytesPerTrigger": frozenset({Use.READ_STREAM}),
    "failOnDataLoss": frozenset({Use.READ_STREAM}),
    "transactionId": frozenset({Use.WRITE}),
    "rejectPath": _WRITES,
}
_BY_LOWER: Final = {name.lower(): name for name in OPTIONS}
# Spark's own, which it hands on to the sink.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "outputmode"})
_TRUTHS: Final = {"true": True, "false": False}


class Given:
    """The options that were given, each asked for by its kind."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {
            _known(name): value.strip()
            for name, value in options.items()
            if name.lower() not in _OF_SPARK
        }

    def check_for(self, use: Use) -> None:
        """Refuse options that mean nothing for this use."""
        for name in self._values:
            if use not in OPTIONS[name]:
                uses = ", ".join(sorted(each.value for each in OPTIONS[name]))
                raise OptionInvalid(f"option {name} is for {uses}, not for {use.value}; remove it")

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self._values

    def text(self, name: str) -> str | None:
        """Return a text that says something, or None."""
        value = self._values.get(name)
        if value is not None and not value:
            raise OptionInvalid(f"option {name} is empty; give it a value or remove it")
        return value

    def needed(self, name: str, why: str) -> str:
        """Return a text that must be there."""
        value = self.text(name)
        if value is None:
            raise OptionInvalid(f"option {name} is missing: {why}")
        return value

    def word(self, name: str, words: Iterable[str], default: str) -> str:
        """Return one of several words, whatever its case."""
        known = {word.lower(): word for word in words}
        value = self.text(name) or default
        if value.lower() not in known:
            raise OptionInvalid(f"option {name} is '{value}'; {suggest(value, known.values())}")
        return known[value.lower()]

    def number(self, name: str, default: int, *, most: int = 2**31 - 1) -> int:
        """Return a whole number above zero."""
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal() and 0 < int(value) <= most):
            raise OptionInvalid(f"option {name} is '{value}'; it must be from 1 to {most}")
        return int(value)

    def truth(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in _TRUTHS:
            raise OptionInvalid(f"option {name} is '{value}'; it must be true or false")
        return _TRUTHS[value.lower()]

    def time(self, name: str) -> datetime | None:
        """Return a time: milliseconds since 1970, or ISO 8601, UTC unless it says otherwise."""
        value = self.text(name)
        if value is None:
            return None
        try:
            if value.isascii() and value.isdecimal():
                return datetime.fromtimestamp(int(value) / 1000, UTC)
            time = datetime.fromisoformat(value)
        except (ValueError, OverflowError, OSError):
            raise OptionInvalid(
                f"option {name} is '{value}'; it must be like 2026-11-16T08:30:00Z,"
                " or milliseconds since 1970"
            ) from None
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _known(name: str) -> str:
    known = _BY_LOWER.get(name.lower())
    if known is None:
        raise OptionInvalid(f"there is no option {name}; {suggest(name, OPTIONS)}")
    return known
