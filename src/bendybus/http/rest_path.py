"""What a request of REST messaging is about: an entity, and a message of it if one is named.

    /<entity>/messages                          send
    /<receivable>/messages/head                 receive
    /<receivable>/messages/<id>/<lock token>    settle or renew

A receivable is a queue, `<topic>/subscriptions/<name>`, or a sub-queue of one of them. Everything
else is not for here, an entity called `messages` included.
"""

import uuid
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from bendybus.model.addresses import Address, parse_address
from bendybus.model.errors import ArgumentInvalid

_MESSAGES: Final = "messages"
_HEAD: Final = "head"


class Subject(Enum):
    """What of an entity a path is about."""

    MESSAGES = "all its messages"
    HEAD = "the next message"
    LOCKED = "a message under lock"


# Which requests are served; other methods on such paths may be names of entities.
SERVED: Final = frozenset(
    {
        (Subject.MESSAGES, "POST"),
        (Subject.HEAD, "POST"),
        (Subject.HEAD, "DELETE"),
        (Subject.LOCKED, "DELETE"),
        (Subject.LOCKED, "PUT"),
        (Subject.LOCKED, "POST"),
    }
)


@dataclass(frozen=True, slots=True)
class RestPath:
    """A path, taken apart. `resource` is all of it, decoded, as tokens cover it."""

    subject: Subject
    address: Address
    resource: str
    lock_token: uuid.UUID | None = None


def parse_rest_path(method: str, path: str) -> RestPath | None:
    """Take a path apart as it came, encoded; None if it is not about messages."""
    entity, _, last = path.rstrip("/").rpartition("/")
    if last.lower() == _MESSAGES:
        return _parsed(Subject.MESSAGES, method, entity, path)
    rest, _, before = entity.rpartition("/")
    if last.lower() == _HEAD and before.lower() == _MESSAGES:
        return _parsed(Subject.HEAD, method, rest, path)
    entity, _, messages = rest.rpartition("/")
    if messages.lower() != _MESSAGES or (token := _lock_token(last)) is None:
        return None
    found = _parsed(Subject.LOCKED, method, entity, f"{entity}/{_MESSAGES}")
    return None if found is None else replace(found, resource=unquote(path), lock_token=token)


@lru_cache(maxsize=1024)
def _parsed(subject: Subject, method: str, entity: str, path: str) -> RestPath | None:
    """Take apart what many requests have in common."""
    if (subject, method) not in SERVED:
        return None
    try:
        return RestPath(subject, parse_address(entity), unquote(path))
    except ArgumentInvalid:
        return None


def _lock_token(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
