"""Values to and from PostgreSQL's wire, as far as our statements have them.

A parameter has the type that its statement casts it to, so a number goes as its digits, whatever
its width. Bytes, and arrays of bytes or texts, go in binary. Results all come in binary.
"""

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final

from bendybus.store.postgres.texts import from_store, from_store_json, to_store, to_store_json

BINARY: Final = 1
TEXT: Final = 0

_BYTEA: Final = 17
_TEXT: Final = 25
_ARRAY_HEAD: Final = Struct("!iiiii")
_LENGTH: Final = Struct("!i")
_NULL: Final = _LENGTH.pack(-1)

Decode = Callable[[bytes], Any]


class Packed:
    """An array as it goes over the wire, made once and bound as often as it is needed."""

    __slots__ = ("format", "value")

    def __init__(self, value: bytes, form: int) -> None:
        self.value = value
        self.format = form


class Numbers:
    """Numbers, at least one, for a parameter that is cast to `bigint[]`."""

    __slots__ = ("_numbers", "_packed")

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers: Final = numbers if isinstance(numbers, list) else list(numbers)
        self._packed: Packed | None = None

    @property
    def packed(self) -> Packed:
        """All of them."""
        if self._packed is None:
            self._packed = _listed(self._numbers)
        return self._packed

    @property
    def ends(self) -> Packed | None:
        """The first and the last, if the others are all that lie between, in order."""
        numbers = self._numbers
        first, last = numbers[0], numbers[-1]
        if last - first != len(numbers) - 1 or numbers != list(range(first, last + 1)):
            return None
        return _listed([first, last])


def _listed(numbers: list[int]) -> Packed:
    return Packed(b"{%b}" % ",".join(map(str, numbers)).encode(), TEXT)


def packed_blobs(values: Sequence[bytes]) -> Packed:
    """Pack bytes for a parameter that is cast to `bytea[]`."""
    return _packed(values, _BYTEA)


def packed_texts(values: Sequence[str | None]) -> Packed:
    """Pack texts for a parameter that is cast to `text[]`."""
    encoded = [None if value is None else to_store(value).encode() for value in values]
    if None not in encoded:
        return _packed([each for each in encoded if each is not None], _TEXT)
    parts = [_ARRAY_HEAD.pack(1, 1, _TEXT, len(values), 1)]
    for each in encoded:
        parts += [_NULL] if each is None else [_LENGTH.pack(len(each)), each]
    return Packed(b"".join(parts), BINARY)


def _packed(values: Sequence[bytes], kind: int) -> Packed:
    """Pack at least one value, none of which is null."""
    pieces: list[bytes] = [b""] * (2 * len(values))
    pieces[0::2] = map(_LENGTH.pack, map(len, values))
    pieces[1::2] = values
    head = _ARRAY_HEAD.pack(1, 0, kind, len(values), 1)
    return Packed(head + b"".join(pieces), BINARY)


def bound(
    bindings: Sequence[Any], json_places: frozenset[int]
) -> tuple[list[bytes | None], list[int]]:
    """Return values and formats of parameters; some places, from 0, take JSON."""
    values: list[bytes | None] = []
    formats: list[int] = []
    for place, value in enumerate(bindings):
        kind = type(value)
        form = TEXT
        if kind is Packed or kind is Numbers:
            packed = value if kind is Packed else value.packed
            given, form = packed.value, packed.format
        elif value is None:
            given = None
        elif kind is bytes:
            given, form = value, BINARY
        elif kind is str:
            text = to_store_json(value) if place in json_places else to_store(value)
            given = text.encode()
        else:
            # Numbers, and what counts as one: states, flags, instants.
            given = b"%d" % value
        values.append(given)
        formats.append(form)
    return values, formats


def _number(size: str) -> Decode:
    unpack = Struct(size).unpack

    def decode(value: bytes) -> int:
        number: int = unpack(value)[0]
        return number

    return decode


def _float(value: bytes) -> float:
    number: float = Struct("!d").unpack(value)[0]
    return number


def _text(value: bytes) -> str:
    return from_store(value.decode())


def _json(value: bytes) -> str:
    return from_store_json(value.decode())


def _flag(value: bytes) -> bool:
    return value != b"\0"


# By the number that PostgreSQL has for a type. One that is not here is a defect of a statement.
DECODERS: Final[dict[int, Decode]] = {
    16: _flag,
    17: bytes,
    20: _number("!q"),
    21: _number("!h"),
    23: _number("!i"),
    _TEXT: _text,
    114: _json,
    701: _float,
    2278: bytes,
}
