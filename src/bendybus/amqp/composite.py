"""Composite types: a described list whose places have names and types (AMQP 1.0 §1.4).

A composite is a dataclass whose annotations carry the wire type of each field, in wire order:

    @composite(0x1D, "amqp:error:list")
    @dataclass(frozen=True, slots=True)
    class AmqpError:
        condition: SymbolField
        description: OptionalString = None
        info: OptionalMap = None

Sent: every field, also trailing nulls, because older pyamqp indexes fields by place, and defaults
as values. Taken: any legal form; null or absent means the default. Types are taken leniently
where nothing can be confused: any integer type in range, a string for a symbol and back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

from bendybus.amqp.encode import append_list, append_value
from bendybus.amqp.values import (
    AmqpArray,
    DecodeError,
    Described,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)


class Wire(Enum):
    """The type of a field on the wire."""

    ANY = auto()
    BOOLEAN = auto()
    UBYTE = auto()
    USHORT = auto()
    UINT = auto()
    ULONG = auto()
    TIMESTAMP = auto()
    STRING = auto()
    SYMBOL = auto()
    SYMBOLS = auto()
    BINARY = auto()
    MAP = auto()
    ERROR = auto()


AnyField: TypeAlias = Annotated[object, Wire.ANY]
BooleanField: TypeAlias = Annotated[bool, Wire.BOOLEAN]
UbyteField: TypeAlias = Annotated[int, Wire.UBYTE]
UshortField: TypeAlias = Annotated[int, Wire.USHORT]
UintField: TypeAlias = Annotated[int, Wire.UINT]
UlongField: TypeAlias = Annotated[int, Wire.ULONG]
StringField: TypeAlias = Annotated[str, Wire.STRING]
SymbolField: TypeAlias = Annotated[str, Wire.SYMBOL]
SymbolsField: TypeAlias = Annotated[tuple[str, ...], Wire.SYMBOLS]
BinaryField: TypeAlias = Annotated[bytes, Wire.BINARY]
OptionalBoolean: TypeAlias = Annotated[bool | None, Wire.BOOLEAN]
OptionalUbyte: TypeAlias = Annotated[int | None, Wire.UBYTE]
OptionalUshort: TypeAlias = Annotated[int | None, Wire.USHORT]
OptionalUint: TypeAlias = Annotated[int | None, Wire.UINT]
OptionalUlong: TypeAlias = Annotated[int | None, Wire.ULONG]
OptionalString: TypeAlias = Annotated[str | None, Wire.STRING]
OptionalSymbol: TypeAlias = Annotated[str | None, Wire.SYMBOL]
OptionalSymbols: TypeAlias = Annotated[tuple[str, ...] | None, Wire.SYMBOLS]
OptionalBinary: TypeAlias = Annotated[bytes | None, Wire.BINARY]
OptionalMap: TypeAlias = Annotated[dict[Any, Any] | None, Wire.MAP]


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """How one composite class lies on the wire."""

    code: int
    make: Callable[..., object]
    fields: tuple[tuple[str, Wire, bool], ...]
    """Name, wire type, whether it must be there."""


_LAYOUTS: Final[dict[type, _Layout]] = {}
_BY_CODE: Final[dict[int, _Layout]] = {}
_CODE_BY_NAME: Final[dict[str, int]] = {}
_INTEGERS: Final[Mapping[Wire, tuple[type[int], int, int]]] = {
    Wire.UBYTE: (Ubyte, 0, 2**8 - 1),
    Wire.USHORT: (Ushort, 0, 2**16 - 1),
    Wire.UINT: (Uint, 0, 2**32 - 1),
    Wire.ULONG: (Ulong, 0, 2**64 - 1),
    Wire.TIMESTAMP: (Timestamp, -(2**63), 2**63 - 1),
}
_ERROR_CODE: Final = 0x1D
_T = TypeVar("_T")


def composite(code: int, name: str) -> Callable[[type[_T]], type[_T]]:
    """Register a dataclass as the composite with this descriptor, numeric or symbolic."""

    def register(cls: type[_T]) -> type[_T]:
        hints = get_type_hints(cls, include_extras=True)
        fields = tuple(
            (
                field.name,
                hints[field.name].__metadata__[0],
                field.default is dataclasses.MISSING,
            )
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]  # always a dataclass
        )
        layout = _Layout(code, cls, fields)
        _LAYOUTS[cls] = _BY_CODE[code] = layout
        _CODE_BY_NAME[name] = code
        return cls

    return register


def append_composite(out: bytearray, value: object) -> None:
    """Append a composite, or any other value, to `out`."""
    layout = _LAYOUTS.get(type(value))
    if layout is None:
        append_value(out, value)
        return
    body = bytearray()
    for name, wire, _ in layout.fields:
        _append_field(body, wire, getattr(value, name))
    out += bytes((0x00, 0x53, layout.code))
    append_list(out, body, len(layout.fields))


def encode_composite(value: object) -> bytes:
    """Return the encoding of a composite or of any other value."""
    out = bytearray()
    append_composite(out, value)
    return bytes(out)


def _append_field(out: bytearray, wire: Wire, value: Any) -> None:  # noqa: ANN401  by `wire`
    if value is None:
        out.append(0x40)
    elif wire is Wire.ANY or wire is Wire.ERROR:
        append_composite(out, value)
    elif wire is Wire.SYMBOL:
        append_value(out, Symbol(value))
    elif wire is Wire.SYMBOLS:
        append_value(out, AmqpArray(Symbol, tuple(Symbol(item) for item in value)))
    elif wire in _INTEGERS:
        append_value(out, _INTEGERS[wire][0](value))
    else:
        append_value(out, value)


def compose(value: object) -> object:
    """Turn a decoded described list into its composite; what we do not know stays as it is."""
    if type(value) is not Described:
        return value
    code = descriptor_code(value.descriptor)
    layout = _BY_CODE.get(code) if code is not None else None
    if layout is None:
        return value
    if type(value.value) is not list:
        raise DecodeError(f"composite 0x{layout.code:02x} is not a list")
    return _fill(layout, value.value)


def descriptor_code(descriptor: object) -> int | None:
    """Return the number of a descriptor given as number or as symbol."""
    if type(descriptor) is Ulong:
        return int(descriptor)
    return _CODE_BY_NAME.get(descriptor) if type(descriptor) is Symbol else None


def _fill(layout: _Layout, items: list[object]) -> object:
    if len(items) > len(layout.fields):
        raise DecodeError(f"composite 0x{layout.code:02x} has too many fields")
    values: dict[str, object] = {}
    for (name, wire, _), item in zip(layout.fields, items, strict=False):
        if item is not None:
            values[name] = _checked(name, wire, item)
    for name, _, is_mandatory in layout.fields:
        if is_mandatory and name not in values:
            raise DecodeError(f"mandatory field {name} of 0x{layout.code:02x} is missing")
    return layout.make(**values)


def _checked(name: str, wire: Wire, item: object) -> object:
    if wire is Wire.ANY:
        return compose(item)
    if wire is Wire.ERROR:
        error = compose(item)
        if type(error) in _LAYOUTS and _LAYOUTS[type(error)].code == _ERROR_CODE:
            return error
    elif wire in _INTEGERS:
        kind, low, high = _INTEGERS[wire]
        if isinstance(item, int) and type(item) is not bool and low <= item <= high:
            return kind(item)
    elif wire is Wire.SYMBOLS:
        symbols = item.items if isinstance(item, AmqpArray) else (item,)
        if all(isinstance(symbol, str) for symbol in symbols):
            return symbols
    elif type(item) in _TYPES_TAKEN[wire]:
        return item
    raise DecodeError(f"field {name} is a {type(item).__name__}, not a {wire.name.lower()}")


_TYPES_TAKEN: Final[Mapping[Wire, tuple[type, ...]]] = {
    Wire.BOOLEAN: (bool,),
    Wire.STRING: (str, Symbol),
    Wire.SYMBOL: (Symbol, str),
    Wire.BINARY: (bytes,),
    Wire.MAP: (dict,),
}
