"""What a request of REST messaging is about: an entity, and a message of it if one is named.

    /<entity>/messages                          send
    /<receivable>/messages/head                 receive
    /<receivable>/messages/<id>/<lock token>    settle or renew

A receivable is a queue, `<topic>/subscriptions/<name>`, or a sub-queue of one of them. Everything
else is not for here, an entity called `messages` included.
"""

import uuid
from dataclasses import dataclass
from enum import Enum
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
    segments = path.strip("/").split("/")
    last = segments[-1].lower()
    token: uuid.UUID | None = None
    if last == _MESSAGES:
        subject, entity = Subject.MESSAGES, segments[:-1]
    elif last == _HEAD and segments[-2:-1] and segments[-2].lower() == _MESSAGES:
        subject, entity = Subject.HEAD, segments[:-2]
    elif segments[-3:-2] and segments[-3].lower() == _MESSAGES:
        token = _lock_token(last)
        subject, entity = Subject.LOCKED, segments[:-3]
    else:
        return None
    if not entity or (subject, method) not in SERVED:
        return None
    if subject is Subject.LOCKED and token is None:
        return None
    try:
        address = parse_address("/".join(entity))
    except ArgumentInvalid:
        return None
    return RestPath(subject, address, unquote(path), token)


def _lock_token(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
