"""Python types for the AMQP types that Python's own do not determine (AMQP 1.0 §1.6).

    None bool str bytes float list dict uuid.UUID    stand for themselves (float is double)
    int                                              is sent as long
    everything else                                  has a class here

A decoded value keeps its class, so encoding it again gives the same AMQP type.
"""

from __future__ import annotations

from dataclasses import dataclass


class AmqpCodecError(ValueError):
    """Bytes or values that the AMQP type system does not allow."""


class DecodeError(AmqpCodecError):
    """The bytes are not a well-formed AMQP value."""


class EncodeError(AmqpCodecError):
    """The value has no AMQP encoding: unknown class, or out of its type's range."""


class Symbol(str):
    """A name from a constrained domain; ASCII."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Ubyte(int):
    """0 .. 2**8-1."""

    __slots__ = ()


class Ushort(int):
    """0 .. 2**16-1."""

    __slots__ = ()


class Uint(int):
    """0 .. 2**32-1."""

    __slots__ = ()


class Ulong(int):
    """0 .. 2**64-1."""

    __slots__ = ()


class Byte(int):
    """-2**7 .. 2**7-1."""

    __slots__ = ()


class Short(int):
    """-2**15 .. 2**15-1."""

    __slots__ = ()


class Int(int):
    """-2**31 .. 2**31-1."""

    __slots__ = ()


class Long(int):
    """-2**63 .. 2**63-1; a plain int is sent as one."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01 UTC, signed 64 bits."""

    __slots__ = ()


class Float(float):
    """IEEE 754 binary32; a plain float is sent as binary64."""

    __slots__ = ()


class Decimal32(bytes):
    """IEEE 754 decimal32, kept as its four bytes: nobody here calculates with it."""

    __slots__ = ()


class Decimal64(bytes):
    """IEEE 754 decimal64, kept as its eight bytes."""

    __slots__ = ()


class Decimal128(bytes):
    """IEEE 754 decimal128, kept as its sixteen bytes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it means, such as `0x70` for a message header."""

    descriptor: object
    value: object


@dataclass(frozen=True, slots=True)
class AmqpArray:
    """Values of one type, `item_type` being the class as listed on top of this file.

    The type is kept because an empty array still has one. `descriptors` are those that all items
    share, outermost first; the items themselves are then without.
    """

    item_type: type
    items: tuple[object, ...] = ()
    descriptors: tuple[object, ...] = ()
