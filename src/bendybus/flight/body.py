"""The JSON objects that Flight calls carry: known names only, each value of its kind.

A refusal names the field, what it holds and what would be right; nothing was done then.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NoReturn, TypeVar

from bendybus.model.addresses import ADDRESS_LENGTH_MAX, Address, parse_address
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.ids import COUNTER_BITS, SubQueue
from bendybus.model.suggestion import suggest

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
NAME_LENGTH_MAX: Final = 256
FRAGMENTS_MAX: Final = 1 << (64 - COUNTER_BITS)
NUMBER_MAX: Final = (1 << 63) - 1
ADDRESS_FIELDS: Final = ("entity", "subscription", "sub_queue")
SUB_QUEUES: Final = {
    "deadletter": SubQueue.DEAD_LETTER,
    "transferdeadletter": SubQueue.TRANSFER_DEAD_LETTER,
}
_SHOWN_LENGTH_MAX: Final = 60
# JSON can write halves of characters; they are none, and cannot be written anywhere else.
_SURROGATES: Final = frozenset(map(chr, range(0xD800, 0xE000)))
_FRAGMENT_DIGITS_MAX: Final = len(str(FRAGMENTS_MAX))

Word = TypeVar("Word")


class Body:
    """A JSON object, of which every field is asked for by its kind."""

    def __init__(self, values: Mapping[str, object], path: str = "") -> None:
        self._values = values
        self._path = path

    def has(self, name: str) -> bool:
        """Whether a field says anything."""
        return self._values.get(name) is not None

    def text(self, name: str, length_max: int = NAME_LENGTH_MAX) -> str:
        """Return a text that must be there and say something."""
        value = self._values.get(name)
        if not isinstance(value, str) or not value:
            self._refuse(name, "must be a text")
        if len(value) > length_max:
            self._refuse(name, f"must have at most {length_max} characters")
        if any(ord(each) < ord(" ") or each in _SURROGATES for each in value):
            self._refuse(name, "must not have control characters")
        return value

    def optional_text(self, name: str, length_max: int = NAME_LENGTH_MAX) -> str | None:
        """Return a text, if there is one."""
        return self.text(name, length_max) if self.has(name) else None

    def word(self, name: str, words: Mapping[str, Word]) -> Word:
        """Return what one of several words means, whatever its case."""
        text = self.text(name)
        if text.lower() not in words:
            self._refuse(name, f"is none; {suggest(text, words)}")
        return words[text.lower()]

    def number(self, name: str, least: int = 0, most: int = NUMBER_MAX) -> int:
        """Return a whole number within its bounds."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self._refuse(name, f"must be a whole number from {least} to {most}")
        return value

    def flag(self, name: str) -> bool:
        """Return a truth; false where nothing is said."""
        value = self._values[name] if self.has(name) else False
        if not isinstance(value, bool):
            self._refuse(name, "must be true or false")
        return value

    def texts(self, name: str, count_max: int) -> list[str]:
        """Return a list of texts, each not empty."""
        texts = [item for item in self._items(name, count_max) if isinstance(item, str) and item]
        if len(texts) != len(self._items(name, count_max)):
            self._refuse(name, "must be a list of texts")
        return texts

    def values(self, name: str, count_max: int) -> list[object]:
        """Return a list of anything."""
        return self._items(name, count_max)

    def objects(self, name: str, known: Iterable[str], count_max: int) -> Iterator["Body"]:
        """Yield the members of a list, which are objects themselves."""
        for at, item in enumerate(self._items(name, count_max)):
            path = f"{self._path}{name}[{at}]"
            yield Body(_checked(item, known, path), f"{path}.")

    def by_fragment(self, name: str) -> dict[int, int]:
        """Return numbers by fragment, as offsets have them: {"0": 17, …}."""
        value = self._values[name] if self.has(name) else {}
        if not isinstance(value, dict) or not all(map(_is_fragment, value)):
            self._refuse(name, 'must be numbers by fragment, such as {"0": 17}')
        if not all(map(_is_number, value.values())):
            self._refuse(name, 'must be numbers by fragment, such as {"0": 17}')
        return {int(key): number for key, number in value.items()}

    def numbers_by_fragment(self, name: str, count_max: int) -> dict[int, list[int]]:
        """Return lists of numbers by fragment: {"0": [3, 4], …}; so many in all at most."""
        value = self._values.get(name)
        if not isinstance(value, dict) or not all(map(_is_fragment, value)):
            self._refuse(name, 'must be lists of numbers by fragment, such as {"0": [3, 4]}')
        if not all(_are_numbers(each) for each in value.values()):
            self._refuse(name, 'must be lists of numbers by fragment, such as {"0": [3, 4]}')
        if sum(map(len, value.values())) > count_max:
            self._refuse(name, f"must name at most {count_max} messages")
        return {int(key): each for key, each in value.items()}

    def address(self) -> Address:
        """Return the queue, topic, subscription or sub-queue that all is about."""
        address = parse_address(self.text("entity", ADDRESS_LENGTH_MAX))
        subscription = self.optional_text("subscription")
        sub_queue = address.sub_queue
        if self.has("sub_queue"):
            sub_queue = self.word("sub_queue", SUB_QUEUES)
        return Address(address.path, subscription or address.subscription, sub_queue)

    def _items(self, name: str, count_max: int) -> list[object]:
        value = self._values.get(name)
        if not isinstance(value, list):
            self._refuse(name, "must be a list")
        if len(value) > count_max:
            self._refuse(name, f"must have at most {count_max} members, not {len(value)}")
        return value

    def _refuse(self, name: str, what: str) -> NoReturn:
        shown = json.dumps(self._values.get(name))
        if len(shown) > _SHOWN_LENGTH_MAX:
            shown = f"{shown[:_SHOWN_LENGTH_MAX]}…"
        raise ArgumentInvalid(f"'{self._path}{name}' {what}; it is {shown}.", argument=name)


def read_body(content: bytes, known: Iterable[str], what: str) -> Body:
    """Read the object that a call carries; `what` names it. Raises `ArgumentInvalid`."""
    if len(content) > BODY_BYTES_MAX:
        raise ArgumentInvalid(f"The {what} has more than {BODY_BYTES_MAX} bytes.")
    try:
        value = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ArgumentInvalid(f"The {what} must be a JSON object in UTF-8: {error}.") from None
    return Body(_checked(value, known, f"the {what}"))


def _checked(value: object, known: Iterable[str], what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ArgumentInvalid(f"{what[0].upper()}{what[1:]} must be a JSON object.")
    names = tuple(known)
    for name in value:
        if name not in names:
            raise ArgumentInvalid(
                f"{what[0].upper()}{what[1:]} has no field '{name[:NAME_LENGTH_MAX]}';"
                f" {suggest(name, names)}",
                argument=name,
            )
    return value


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_number, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX


def _is_fragment(key: str) -> bool:
    is_number = key.isascii() and key.isdecimal() and len(key) <= _FRAGMENT_DIGITS_MAX
    return is_number and int(key) < FRAGMENTS_MAX
