"""Conditions on the JSON in a body: a path, and perhaps what is found there must equal.

    $.order.id            there is something at this path
    $.order.total > 100   and it is more than 100; also = != < <= >=
    $.items[0].sku = "a"  members by name, elements by number
    $.items[*].sku = "a"  any element, or any member
    $['odd name']         names that are not plain words

A part of RFC 9535, with a comparison behind it: what one looks for in a message is a value at a
place. Whoever needs more prints JSON and pipes it to `jq`.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from bendybus.cli.failure import CommandFailed

_STEP: Final = re.compile(
    r"""\.(?P<name>[^\s.\[\]=!<>'"]+)|\[(?:(?P<index>-?\d{1,9})|(?P<any>\*)|'(?P<odd>[^']*)')\]"""
)
_COMPARISON: Final = re.compile(r"\s*(?P<sign>==|=|!=|<=|>=|<|>)\s*(?P<value>\S.*?)\s*")
_SIGNS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
# Stands for every member or element.
_ANY: Final = None

Step = str | int | None


class JsonPath(NamedTuple):
    """A path, and what is compared with what is found there; None: it is enough that it is."""

    steps: tuple[Step, ...]
    compare: Callable[[Any, Any], bool] | None = None
    value: object = None

    def matches(self, body: object) -> bool:
        """Say whether it is true of a body; of one that is no JSON it never is."""
        if isinstance(body, str | bytes):
            try:
                body = json.loads(body)
            except (ValueError, RecursionError):
                return False
        return any(map(self._holds, _found(body, self.steps)))

    def _holds(self, found: object) -> bool:
        if self.compare is None:
            return True
        is_alike = _kind(found) is _kind(self.value)
        if self.compare is operator.ne:
            return not is_alike or found != self.value
        try:
            return is_alike and self.compare(found, self.value)
        except TypeError:
            return False


def parse_json_path(text: str) -> JsonPath:
    """Read a condition. Raises `CommandFailed` saying where it cannot be read."""
    if not text.startswith("$"):
        raise CommandFailed(f"--json-path {text!r} must begin with $, as in $.order.id = 7")
    steps: list[Step] = []
    at = 1
    while found := _STEP.match(text, at):
        at = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["any"] is not None or found["name"] == "*":
            steps.append(_ANY)
        else:
            steps.append(found["odd"] if found["odd"] is not None else found["name"])
    if not text[at:].strip():
        return JsonPath(tuple(steps))
    compared = _COMPARISON.fullmatch(text, at)
    if compared is None:
        raise CommandFailed(
            f"--json-path: cannot read {text[at:]!r}; a path is like $.items[0].sku, and behind it"
            " may be a comparison such as = 7"
        )
    return JsonPath(tuple(steps), _SIGNS[compared["sign"]], _value(compared["value"]))


def _found(value: object, steps: tuple[Step, ...]) -> Iterator[object]:
    if not steps:
        yield value
        return
    step, *rest = steps
    if step is _ANY:
        members: list[object] = []
        if isinstance(value, dict):
            members = list(value.values())
        elif isinstance(value, list):
            members = value
        for member in members:
            yield from _found(member, tuple(rest))
    elif isinstance(step, int):
        if isinstance(value, list) and -len(value) <= step < len(value):
            yield from _found(value[step], tuple(rest))
    elif isinstance(value, dict) and step in value:
        yield from _found(value[step], tuple(rest))


def _value(text: str) -> object:
    """Read what to compare with: JSON, or else a word that stands for itself."""
    if text[0] == text[-1] == "'" and len(text) > 1:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _kind(value: object) -> type:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return type(value)
