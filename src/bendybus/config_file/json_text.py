"""JSON as people keep it in configuration files: with `//` and `/* */` comments.

A comma before a closing bracket is allowed, as the emulator allows it. The standard library
reads the scalars; the structure is walked here because it would forget the positions.
"""

import json
import re
from bisect import bisect_right
from json import JSONDecodeError
from typing import Final, NoReturn

from bendybus.config_file.document import (
    DEPTH_MAX,
    Entry,
    ListNode,
    MapNode,
    Node,
    Place,
    ScalarNode,
)

_SPACE_OR_COMMENT: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


def parse_json(text: str, file: str) -> Node:
    """Read the whole text. Raises `ConfigInvalid` at the first character that does not fit."""
    return _JsonReader(text, file).read_document()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


class _JsonReader:
    """Walks the text once; `_at` is the next character not yet read."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._at = 0
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._scalars = json.JSONDecoder(parse_constant=_refuse_constant)

    def read_document(self) -> Node:
        node = self._read_value(depth=0)
        self._skip()
        if self._at < len(self._text):
            raise self._place().refuse("nothing may follow the end of the document")
        return node

    def _read_value(self, depth: int) -> Node:
        self._skip()
        if depth > DEPTH_MAX:
            raise self._place().refuse(f"nested more than {DEPTH_MAX} deep")
        match self._peek():
            case "{":
                return self._read_map(depth)
            case "[":
                return self._read_list(depth)
            case _:
                return self._read_scalar()

    def _read_map(self, depth: int) -> MapNode:
        place, entries = self._place(), []
        self._at += 1
        while not self._closes("}"):
            key_place, key = self._place(), self._read_scalar().value
            if not isinstance(key, str):
                raise key_place.refuse("a key must be a text in double quotes")
            self._skip()
            if self._peek() != ":":
                raise self._place().refuse(f"a ':' must follow the key {key!r}")
            self._at += 1
            entries.append(Entry(key_place, key, self._read_value(depth + 1)))
            self._end_item("}")
        return MapNode(place, tuple(entries))

    def _read_list(self, depth: int) -> ListNode:
        place, items = self._place(), []
        self._at += 1
        while not self._closes("]"):
            items.append(self._read_value(depth + 1))
            self._end_item("]")
        return ListNode(place, tuple(items))

    def _read_scalar(self) -> ScalarNode:
        place = self._place()
        if self._peek() in ("", "{", "[", "}", "]", ",", ":"):
            raise place.refuse("a value is missing here")
        try:
            value, self._at = self._scalars.raw_decode(self._text, self._at)
        except JSONDecodeError as error:
            self._at = min(error.pos, len(self._text))
            raise self._place().refuse(f"not JSON: {error.msg}") from None
        except ValueError as error:
            raise place.refuse(str(error)) from None
        return ScalarNode(place, value)

    def _closes(self, bracket: str) -> bool:
        self._skip()
        if self._peek() != bracket:
            return False
        self._at += 1
        return True

    def _end_item(self, bracket: str) -> None:
        self._skip()
        if self._peek() == ",":
            self._at += 1
        elif self._peek() != bracket:
            raise self._place().refuse(f"expected ',' or '{bracket}'")

    def _skip(self) -> None:
        match = _SPACE_OR_COMMENT.match(self._text, self._at)
        assert match is not None, "the pattern matches the empty text"
        self._at = match.end()
        if self._text.startswith("/*", self._at):
            raise self._place().refuse("the comment that begins here has no end")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _place(self) -> Place:
        line = bisect_right(self._line_starts, self._at)
        return Place(self._file, line, self._at - self._line_starts[line - 1] + 1)
