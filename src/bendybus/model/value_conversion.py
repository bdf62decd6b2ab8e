"""How a value written by an action takes the type of the property it replaces.

A conversion that is possible is made, as .NET's `Convert` would: a rule that counts in a
property of 32 bits leaves 32 bits, and a number written over a text is text. One that is not
possible is left out, and the property takes the type of the new value.
"""

import math
import re
from typing import Final
from uuid import UUID

from bendybus.model.sql_values import INT64_MAX, INT64_MIN, text_of

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DOUBLE: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[Ee][+-]?[0-9]+)?")
_IDENTIFIER: Final = re.compile(r"[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}")


def convert_like(value: object, existing: object) -> object:
    """Return the value in the type of the existing one, or as it is where that cannot be."""
    converted = _converted(value, existing)
    return value if converted is None else converted


def _converted(value: object, existing: object) -> object:
    match existing:
        case bool():
            return _boolean(value)
        case int():
            return _narrowed(_integer(value), existing)
        case float():
            return _narrowed(_double(value), existing)
        case str():
            return text_of(value)
        case UUID():
            return UUID(value) if isinstance(value, str) and _IDENTIFIER.fullmatch(value) else None
        case _:
            return None


def _narrowed(number: float | None, existing: float) -> object:
    """Give the number the existing one's class if that says that it can hold it.

    The types of a protocol are subclasses of int and float with the bounds `least` and `most`.
    One without bounds counts as its base: a wider type is right for every value.
    """
    kind = type(existing)
    least, most = getattr(kind, "least", None), getattr(kind, "most", None)
    if number is None or least is None or most is None or not math.isfinite(number):
        return number
    return kind(number) if least <= number <= most else number


def _boolean(value: object) -> bool | None:
    match value:
        case int() | float():
            return value != 0
        case str():
            return {"true": True, "false": False}.get(value.lower())
        case _:
            return None


def _integer(value: object) -> int | None:
    number: int | None = None
    match value:
        case int():
            number = int(value)
        case float() if math.isfinite(value):
            number = round(value)
        case str() if _INTEGER.fullmatch(value):
            number = int(value)
    return number if number is not None and INT64_MIN <= number <= INT64_MAX else None


def _double(value: object) -> float | None:
    match value:
        case int() | float():
            return float(value)
        case str() if _DOUBLE.fullmatch(value):
            return float(value)
        case _:
            return None
