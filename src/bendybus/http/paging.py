"""Lists come in pages: `$skip` and `$top`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.requests import Request

from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange

PAGE_MAX: Final = 100
_DIGITS_MAX: Final = 9

Listed = TypeVar("Listed")


@dataclass(slots=True)
class Page:
    """Which part of a list is wanted, and, once it was cut, whether there is more."""

    skip: int
    top: int
    has_more: bool = False

    def cut(self, listed: Callable[[int, int], Sequence[Listed]]) -> Sequence[Listed]:
        """Return the part; `listed` takes how many to skip and how many to return at most."""
        found = listed(self.skip, self.top + 1)
        self.has_more = len(found) > self.top
        return found[: self.top]


def page_of(request: Request) -> Page:
    """Return the part that a request wants, at most a hundred at a time."""
    skip = _number(request, "$skip", 0)
    top = _number(request, "$top", PAGE_MAX)
    if top == 0:
        raise ArgumentOutOfRange("$top must be at least 1.", argument="$top")
    return Page(skip, min(top, PAGE_MAX))


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise ArgumentInvalid(f"{name} must be a whole number, not {text[:20]!r}.", argument=name)
    return int(text)
