"""Bodies of all rows of a batch to AMQP: data as a rule, and what else a message can have.

data             the bytes of a data section; also where nothing is said
text, binary     a value that is a text or binary, whose bytes the body has
value, sequence  any other value, or a sequence: the body has its AMQP encoding
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bendybus.amqp.decode import decode_value
from bendybus.amqp.values import AmqpCodecError
from bendybus.columns.encoding_properties import Fault
from bendybus.columns.pieces import BINARY, STRING, Pieces, lengths
from bendybus.columns.schema import BODY_TYPES

_DATA: Final = b"\x00\x53\x75"
_SEQUENCE: Final = b"\x00\x53\x76"
_VALUE: Final = b"\x00\x53\x77"
_CODE_BITS: Final = 3
_TEXT_CODE, _VALUE_CODE, _SEQUENCE_CODE = 1, 3, 4


def add_bodies(pieces: Pieces, bodies: pa.Array | None, kinds: pa.Array | None) -> list[Fault]:
    """Add the body of every row; return what is wrong."""
    if kinds is not None:
        return _add_of_kinds(pieces, bodies, kinds)
    if bodies is None:
        pieces.add(_DATA + BINARY(0))
        return []
    sizes = lengths(bodies)
    pieces.add_sized(sizes, lambda size: _DATA + BINARY(size))
    pieces.add_column(_without_null(bodies), sizes)
    return []


def _add_of_kinds(pieces: Pieces, bodies: pa.Array | None, kinds: pa.Array) -> list[Fault]:
    if bodies is None:
        bodies = pa.repeat(pa.scalar(b"", pa.binary()), pieces.rows)
    bodies = _without_null(bodies)
    found = pc.index_in(pc.fill_null(kinds, BODY_TYPES[0]), pa.array(BODY_TYPES))
    codes = pc.fill_null(found, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = lengths(bodies)
    pieces.add_sized(sizes << _CODE_BITS | codes, _head)
    pieces.add_column(bodies, sizes)
    faults = [
        Fault(int(row), _unknown(kinds[int(row)].as_py()))
        for row in np.flatnonzero(np.asarray(pc.is_null(found)))
    ]
    for row in np.flatnonzero(codes):
        faults += _checked(int(row), int(codes[row]), bodies[int(row)].as_py())
    return faults


def _without_null(bodies: pa.Array) -> pa.Array:
    return pc.fill_null(bodies, b"") if bodies.null_count else bodies


def _head(size_and_code: int) -> bytes:
    size, code = size_and_code >> _CODE_BITS, size_and_code & (1 << _CODE_BITS) - 1
    heads = (_DATA + BINARY(size), _VALUE + STRING(size), _VALUE + BINARY(size), _VALUE, _SEQUENCE)
    return heads[code]


def _unknown(kind: str) -> str:
    near = get_close_matches(kind, BODY_TYPES, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(BODY_TYPES)}"
    return f"its body_type is {kind!r}; {hint}"


def _checked(row: int, code: int, body: bytes) -> Iterator[Fault]:
    """Yield what is wrong with a body that is no data."""
    try:
        _check(code, body)
    except (AmqpCodecError, ValueError, IndexError) as error:
        yield Fault(row, f"its body is no {BODY_TYPES[code]}: {error}")


def _check(code: int, body: bytes) -> None:
    if code == _TEXT_CODE:
        body.decode()
    if code < _VALUE_CODE:
        return
    value, end = decode_value(body, 0)
    if end != len(body):
        raise ValueError(f"{len(body) - end} bytes are too many")
    if code == _SEQUENCE_CODE and not isinstance(value, list):
        raise ValueError("it is no list")
