"""A configuration file as a tree in which every value knows where it stands.

JSON and YAML are read into the same three kinds of node, so that the meaning of a file is
checked once, and a refusal can always point to a line and a column.
"""

from dataclasses import dataclass
from typing import Final

from bendybus.model.errors import ConfigInvalid

Scalar = str | int | float | bool | None

# Bounds on what we read: far above any real file, far below what would hurt.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
NODES_MAX: Final = 500_000
DEPTH_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file, counted from 1 as editors do."""

    file: str
    line: int
    column: int

    def refuse(self, message: str) -> ConfigInvalid:
        """Make the refusal that points here."""
        return ConfigInvalid(f"{self.file}:{self.line}:{self.column}: {message}")


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A text, a number, a truth value or nothing."""

    place: Place
    value: Scalar


@dataclass(frozen=True, slots=True)
class ListNode:
    """A sequence of nodes."""

    place: Place
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping with its value."""

    place: Place
    key: str
    value: "Node"


@dataclass(frozen=True, slots=True)
class MapNode:
    """Keys and values, in the order of the file. Keys may still be doubled."""

    place: Place
    entries: tuple[Entry, ...]


Node = ScalarNode | ListNode | MapNode
