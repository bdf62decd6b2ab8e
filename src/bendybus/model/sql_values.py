"""What the operators of filters and actions do with values.

Values and their Python types:

    text        str                              boolean   bool
    number      int (64 bits) and float          binary    bytes
    identifier  uuid.UUID                        unknown   None: a missing property, or null

Rules, for every operator here:

1. Unknown in, unknown out.
2. Operands that do not go together give unknown, not an error: messages of every kind pass
   through one topic, and a filter must be able to say nothing about most of them.
3. Numbers are 64-bit integers, or doubles once one operand is. Integers divide towards zero.
4. What has no answer at all raises `FilterFailed`: an overflow, an integer divided by zero.

A subclass, such as an AMQP type, counts as its base. Any other value goes with nothing.
"""

import math
import operator
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Final, TypeGuard
from uuid import UUID

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
# As long as one property may be. Without it `SET a = a + a`, repeated, would fill the memory.
TEXT_LENGTH_MAX: Final = 32 * 1024

# A tuple: three times as fast to test as the union, and tested for every message.
NUMBERS: Final = (int, float)

Truth = bool | None
Number = int | float


class FilterFailed(Exception):
    """A filter or action cannot be evaluated for this message; the text says why.

    Not a refusal to a client: the message was accepted, and the subscription decides whether
    to keep it in its dead-letter queue.
    """


class Kind(Enum):
    """What values must share in order to be compared."""

    TEXT = auto()
    NUMBER = auto()
    BOOLEAN = auto()
    IDENTIFIER = auto()
    BINARY = auto()


_ORDERED: Final = frozenset({Kind.TEXT, Kind.NUMBER})
COMPARATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kind_of(value: object) -> Kind | None:
    """Return what the value is to an operator; None for null and for what none of them takes."""
    if isinstance(value, str):
        return Kind.TEXT
    if isinstance(value, bool):  # before int, of which Python makes it a subclass
        return Kind.BOOLEAN
    if isinstance(value, NUMBERS):
        return Kind.NUMBER
    if isinstance(value, UUID):
        return Kind.IDENTIFIER
    return Kind.BINARY if isinstance(value, bytes) else None


def compare(comparator: str, left: object, right: object) -> Truth:
    """Compare two values. Texts compare by code points; numbers by exact value.

    Values of any kind may be equal, but only texts and numbers have an order.
    """
    kind = kind_of(left)
    if kind is None or kind is not kind_of(right):
        return None
    if kind not in _ORDERED and comparator not in ("=", "<>"):
        return None
    return COMPARATORS[comparator](left, right)


def add(left: object, right: object) -> object:
    """Add numbers, or join texts; whatever is added to a text becomes text first."""
    if isinstance(left, str) or isinstance(right, str):
        return _join(left, right)
    return _calculate(operator.add, left, right)


def subtract(left: object, right: object) -> object:
    """Subtract numbers."""
    return _calculate(operator.sub, left, right)


def multiply(left: object, right: object) -> object:
    """Multiply numbers."""
    return _calculate(operator.mul, left, right)


def divide(left: object, right: object) -> object:
    """Divide numbers; between integers the fraction is cut off."""
    return _calculate(_quotient, left, right)


def remainder(left: object, right: object) -> object:
    """Return what a division leaves, with the sign of the left operand."""
    return _calculate(_rest, left, right)


ARITHMETIC: Final[Mapping[str, Callable[[object, object], object]]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
}


def negate(value: object) -> object:
    """Return the number with the opposite sign."""
    return multiply(-1, value)


def keep_sign(value: object) -> object:
    """Return a number as it is: the unary plus."""
    return value if _is_number(value) else None


def text_of(value: object) -> str | None:
    """Write a value as .NET does, or None for what has no text: null and binary."""
    match value:
        case bool():
            return "True" if value else "False"
        case int():
            return str(int(value))
        case float():
            return _text_of_float(value)
        case str() | UUID():
            return str(value)
        case _:
            return None


def _join(left: object, right: object) -> str | None:
    first, second = text_of(left), text_of(right)
    if first is None or second is None:
        return None
    if len(first) + len(second) > TEXT_LENGTH_MAX:
        raise FilterFailed(f"a text grew longer than {TEXT_LENGTH_MAX} characters")
    return first + second


def _calculate(
    operation: Callable[[Number, Number], Number], left: object, right: object
) -> Number | None:
    if not _is_number(left) or not _is_number(right):
        return None
    # Plain numbers, because a sum of two AMQP bytes is not a byte.
    if isinstance(left, int) and isinstance(right, int):
        result = operation(int(left), int(right))
        if not INT64_MIN <= result <= INT64_MAX:
            raise FilterFailed(f"the integer {result} does not fit 64 bits")
        return result
    return operation(float(left), float(right))


def _is_number(value: object) -> TypeGuard[Number]:
    return kind_of(value) is Kind.NUMBER


def _quotient(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            raise FilterFailed(f"the integer {left} cannot be divided by zero")
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _rest(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return left - right * int(_quotient(left, right))
    if not right or math.isinf(left):
        return math.nan
    return math.fmod(left, right)


def _text_of_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(float(value)).removesuffix(".0").replace("e", "E")
