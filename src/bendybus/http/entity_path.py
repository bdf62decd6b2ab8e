"""Which entity a path of the management API means.

Names of queues and topics may contain `/`, sent as it is or as `%2F`, so a path is read from its
end: `…/subscriptions/…/rules/…`, the words in any case, and what is left is a name.
"""

import dataclasses
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from bendybus.atom.properties import Kind
from bendybus.model.errors import ArgumentInvalid, EntityNotFound

_LISTS: Final = {"queues": Kind.QUEUE, "topics": Kind.TOPIC}

_NOT_ENCODED: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
# Letters, marks and digits may be of any language here; which ones a name may have is the
# model's to say, with a better text.
_HARMFUL: Final = re.compile("[\x00-\x1f\x7f\\\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPath:
    """What a path means. `spelling` is how the client wrote it, decoded: answers repeat it."""

    kind: Kind | None  # None where only the entity itself can say: a queue or a topic
    spelling: str = ""
    is_list: bool = False
    entity: str | None = None  # the queue or topic
    subscription: str | None = None
    rule: str | None = None

    @property
    def entries_at(self) -> str:
        """Where the entries of a list are: in front of their names."""
        return "" if self.entity is None else f"{self.spelling}/"


def read_path(raw_path: bytes) -> EntityPath:
    """Read a path as it came. Raises `ArgumentInvalid`, or `EntityNotFound` if it means nothing."""
    segments = _segments(raw_path)
    spelling = "/".join(segments)
    found = _meaning(segments, [segment.lower() for segment in segments])
    if found is None:
        raise EntityNotFound("No service is hosted at the specified address.")
    return dataclasses.replace(found, spelling=spelling)


def _meaning(  # noqa: PLR0911 - one for each form
    segments: list[str], words: list[str]
) -> EntityPath | None:
    match words:
        case ["$namespaceinfo"]:
            return EntityPath(kind=Kind.NAMESPACE)
        case ["$resources", listed] if listed in _LISTS:
            return EntityPath(kind=_LISTS[listed], is_list=True)
        case [first, *_] if first.startswith("$"):
            return None
        case [_, *_, "subscriptions", _, "rules", _]:
            topic, name = "/".join(segments[:-4]), segments[-3]
            return EntityPath(kind=Kind.RULE, entity=topic, subscription=name, rule=segments[-1])
        case [_, *_, "subscriptions", _, "rules"]:
            topic, name = "/".join(segments[:-3]), segments[-2]
            return EntityPath(kind=Kind.RULE, is_list=True, entity=topic, subscription=name)
        case [_, *_, "subscriptions", _]:
            topic, name = "/".join(segments[:-2]), segments[-1]
            return EntityPath(kind=Kind.SUBSCRIPTION, entity=topic, subscription=name)
        case [_, *_, "subscriptions"]:
            topic = "/".join(segments[:-1])
            return EntityPath(kind=Kind.SUBSCRIPTION, is_list=True, entity=topic)
        case _:
            return EntityPath(kind=None, entity="/".join(segments))


def _segments(raw_path: bytes) -> list[str]:
    """Decode a path, once, and refuse what could be read differently by the next to look at it."""
    if not raw_path.startswith(b"/") or _NOT_ENCODED.search(raw_path):
        raise ArgumentInvalid("The path is not a well-formed path of a URL.")
    try:
        path = unquote_to_bytes(raw_path).decode("utf-8")
    except UnicodeDecodeError:
        raise ArgumentInvalid("The path is not UTF-8.") from None
    if _HARMFUL.search(path):
        raise ArgumentInvalid("The path contains a control character or a backslash.")
    segments = path[1:].removesuffix("/").split("/")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise ArgumentInvalid("The path has an empty segment, '.' or '..'.")
    return segments
