"""How far a stream has come, as Spark keeps it in its checkpoint.

    consume   {"entity": "orders", "reader": "capture", "token": "…", "0": 7, "1": 9}
    browse    {"entity": "orders", "0": 281474976710657, "1": …}

A number of a consuming reader is the position of a reservation; the reader has finished all up to
it. A number of a browsing one is the next sequence number to read. Spark compares offsets as
texts, so fragments stand in the order of their numbers, always.
"""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_FRAGMENT_DIGITS_MAX: Final = 5
_SEQUENCE_MAX: Final = 2**63 - 1


class CheckpointForeign(ValueError):
    """The checkpoint belongs to another entity, reader or mode; nothing was done."""


@dataclass(frozen=True, slots=True)
class ConsumedOffset:
    """How far a consuming reader has come. Without a token it has not begun yet."""

    entity: str
    reader: str
    token: str | None = None
    positions: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return what Spark keeps."""
        head: dict[str, object] = {"entity": self.entity, "reader": self.reader}
        return {**head, "token": self.token, **by_fragment(self.positions)}


@dataclass(frozen=True, slots=True)
class BrowsedOffset:
    """How far a browsing stream has come."""

    entity: str
    sequences: Mapping[int, int]

    def to_json(self) -> dict[str, object]:
        """Return what Spark keeps."""
        return {"entity": self.entity, **by_fragment(self.sequences)}


def read_consumed(value: Mapping[str, object], *, entity: str, reader: str) -> ConsumedOffset:
    """Read an offset of this reader. Raises `CheckpointForeign` when it is not."""
    _check_entity(value, entity)
    if "reader" not in value:
        raise CheckpointForeign(_foreign("a stream with mode=browse", "mode=consume"))
    if value["reader"] != reader:
        raise CheckpointForeign(_foreign(f"reader '{value['reader']}'", f"reader '{reader}'"))
    token = value.get("token")
    return ConsumedOffset(
        entity, reader, None if token is None else str(token), _fragments_of(value)
    )


def read_any_consumed(text: str) -> ConsumedOffset | None:
    """Read an offset of any consuming reader that has begun; None for what is none.

    It is as a query's progress has it: JSON, or on Spark 4.1 the text of a dictionary of Python.
    Raises `ValueError` for what is neither.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = _literal(text)
    if not isinstance(value, dict):
        return None
    entity, reader, token = (value.get(name) for name in ("entity", "reader", "token"))
    if not (isinstance(entity, str) and isinstance(reader, str) and isinstance(token, str)):
        return None
    return ConsumedOffset(entity, reader, token, _fragments_of(value))


def read_browsed(value: Mapping[str, object], *, entity: str) -> BrowsedOffset:
    """Read an offset of a stream that browses this entity. Raises `CheckpointForeign`."""
    _check_entity(value, entity)
    if "reader" in value:
        raise CheckpointForeign(_foreign(f"reader '{value['reader']}'", "mode=browse"))
    return BrowsedOffset(entity, _fragments_of(value))


def read_sequences(text: str) -> dict[int, int]:
    """Read sequence numbers by fragment, as a user gives them. Raises `ValueError`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"'{text}' is not JSON: {error}") from None
    if not isinstance(value, dict) or not value:
        raise ValueError(_sequences_wrong(text))
    found: dict[int, int] = {}
    for key, number in value.items():
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if not is_number or not 0 <= number <= _SEQUENCE_MAX or not _is_fragment(key):
            raise ValueError(_sequences_wrong(text))
        found[int(key)] = number
    return found


def by_fragment(numbers: Mapping[int, int]) -> dict[str, int]:
    """Return numbers by fragment in the one order that Spark may see."""
    return {str(fragment): numbers[fragment] for fragment in sorted(numbers)}


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        raise ValueError(f"'{text}' is no offset of a query's progress") from None


def _fragments_of(value: Mapping[str, object]) -> dict[int, int]:
    return {
        int(key): number
        for key, number in value.items()
        if _is_fragment(key) and isinstance(number, int)
    }


def _is_fragment(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) <= _FRAGMENT_DIGITS_MAX


def _check_entity(value: Mapping[str, object], entity: str) -> None:
    kept = value.get("entity")
    if not isinstance(kept, str) or kept.lower() != entity.lower():
        raise CheckpointForeign(_foreign(f"'{kept}'", f"'{entity}'"))


def _foreign(kept: str, asked: str) -> str:
    return (
        f"the checkpoint was made for {kept}, and this query reads {asked};"
        " give it a checkpointLocation of its own"
    )


def _sequences_wrong(text: str) -> str:
    return f"'{text}' must have sequence numbers by fragment, such as {{\"0\": 17}}"
