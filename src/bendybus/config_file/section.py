"""Reading one mapping of the file: known keys only, each once, each of its kind.

A refusal says where (line, column and the path of keys), what is wrong, and what would be right.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from bendybus.config_file.document import Entry, ListNode, MapNode, Node, ScalarNode
from bendybus.model.durations import FOREVER, parse_duration
from bendybus.model.errors import ArgumentInvalid, ConfigInvalid
from bendybus.model.suggestion import suggest


@dataclass(frozen=True, slots=True)
class Value:
    """A node together with the path of keys that leads to it."""

    node: Node
    path: str

    def refuse(self, message: str) -> ConfigInvalid:
        """Make the refusal that points here."""
        return self.node.place.refuse(f"{self.path}: {message}" if self.path else message)

    @property
    def is_text(self) -> bool:
        """Whether it is a text."""
        return isinstance(self.node, ScalarNode) and isinstance(self.node.value, str)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.node, ListNode)

    def text(self) -> str:
        """Read a text."""
        match self.node:
            case ScalarNode(value=str(text)):
                return text
            case ScalarNode(value=bool() | int() | float()):
                raise self.refuse(f"must be a text; put {self._shown()} in quotes")
            case _:
                raise self.refuse(f"must be a text, not {self._shown()}")

    def text_or_none(self) -> str | None:
        """Read a text; an empty one, which the emulator's own files have, means none."""
        if isinstance(self.node, ScalarNode) and self.node.value is None:
            return None
        return self.text() or None

    def is_word(self, word: str) -> bool:
        """Whether it is this word, for keys that take it in place of something else."""
        return isinstance(self.node, ScalarNode) and self.node.value == word

    def flag(self) -> bool:
        """Read true or false."""
        match self.node:
            case ScalarNode(value=bool(flag)):
                return flag
            case ScalarNode(value=str(text)) if text.lower() in ("true", "false"):
                raise self.refuse(f"must be {text.lower()}, without quotes")
            case _:
                raise self.refuse(f"must be true or false, not {self._shown()}")

    def number(self) -> int:
        """Read a whole number."""
        match self.node:
            case ScalarNode(value=int(number)) if not isinstance(number, bool):
                return number
            case ScalarNode(value=str(text)) if text.isdecimal():
                raise self.refuse(f"must be the number {text}, without quotes")
            case _:
                raise self.refuse(f"must be a whole number, not {self._shown()}")

    def duration(self) -> timedelta:
        """Read an ISO 8601 duration."""
        try:
            return parse_duration(self.text())
        except ArgumentInvalid as error:
            raise self.refuse(error.message) from None

    def duration_or_forever(self) -> timedelta | None:
        """Read a duration; the service's largest means without end."""
        duration = self.duration()
        return None if duration >= FOREVER else duration

    def property_value(self) -> str | int | float | bool:
        """Read any scalar, as the properties of a message may be."""
        if isinstance(self.node, ScalarNode) and self.node.value is not None:
            return self.node.value
        raise self.refuse("must be a text, a number, true or false")

    def items(self) -> Iterator["Value"]:
        """Yield the members of a list; an empty value counts as an empty list."""
        if isinstance(self.node, ScalarNode) and self.node.value is None:
            return
        if not isinstance(self.node, ListNode):
            raise self.refuse(f"must be a list, not {self._shown()}")
        for index, item in enumerate(self.node.items):
            yield Value(item, f"{self.path}[{index}]")

    def section(self, known: Iterable[str] | None) -> "Section":
        """Read a mapping that may have the known keys, or any where `known` is None."""
        if not isinstance(self.node, MapNode):
            raise self.refuse(f"must be a mapping of keys to values, not {self._shown()}")
        return Section(self, _checked_entries(self.node, self.path, known))

    def _shown(self) -> str:
        match self.node:
            case ScalarNode(value=None):
                return "nothing"
            case ScalarNode(value=bool(flag)):
                return "true" if flag else "false"
            case ScalarNode(value=value):
                return repr(value)
            case ListNode():
                return "a list"
            case MapNode():
                return "a mapping"


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping whose keys have been checked."""

    whole: Value
    values: dict[str, Value]

    def get(self, key: str) -> Value | None:
        """Return the value of a key, if it is there."""
        return self.values.get(key)

    def need(self, key: str) -> Value:
        """Return the value of a key that must be there."""
        value = self.values.get(key)
        if value is None:
            raise self.whole.refuse(f"{key} is missing")
        return value

    def items(self, key: str) -> Iterator[Value]:
        """Yield the members of the list under a key, none if the key is not there."""
        value = self.values.get(key)
        return iter(()) if value is None else value.items()


def _checked_entries(node: MapNode, path: str, known: Iterable[str] | None) -> dict[str, Value]:
    allowed = None if known is None else frozenset(known)
    values: dict[str, Value] = {}
    for entry in node.entries:
        place = f"{path}.{entry.key}" if path else entry.key
        if allowed is not None and entry.key not in allowed:
            raise entry.place.refuse(f"{place}: unknown key; {suggest(entry.key, allowed)}")
        if entry.key in values:
            raise entry.place.refuse(f"{place}: {_doubled(entry, values)}")
        values[entry.key] = Value(entry.value, place)
    return values


def _doubled(entry: Entry, values: dict[str, Value]) -> str:
    first = values[entry.key].node.place
    return f"the key is there twice, first with its value on line {first.line}; keep one"
