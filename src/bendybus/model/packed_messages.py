"""Many messages as few values: what a writer brings in bulk.

Contents lie one behind the other in one run of bytes, and a field that all messages have alike, or
that none has, is said once. A bulk write of a million messages then makes no object for each.

Or they stay columns, as they came (`PackedRows`): whoever reads them in bulk gets them back so,
and contents are made of them when somebody receives one.
"""

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, Final, TypeVar, overload

from bendybus.model.ids import Instant
from bendybus.model.message import Message

T = TypeVar("T")
# Of each message one, or None if no message has any.
Column = Sequence[T] | None


@dataclass(slots=True)
class PackedMessages(Sequence[Message]):
    """Messages in their order; each is made when it is asked for, and changing it changes nothing.

    `expires_at` holds for all of them, and is only for those that are alike (`is_alike`).
    """

    contents: bytes
    sizes: "array[int]"
    session_ids: Column[str | None] = None
    partition_keys: Column[str | None] = None
    # Only where duplicates are looked for.
    message_ids: Column[str] = None
    times_to_live_ms: int | Sequence[int | None] | None = None
    schedule: Column[int | None] = None
    expires_at: Instant | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def content_bytes(self) -> int:
        """How large all contents are together."""
        return len(self.contents)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> "PackedMessages": ...
    def __getitem__(self, at: int | slice) -> "Message | PackedMessages":
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            assert step == 1, "packed messages are cut, not picked"
            return self.between(start, stop)
        at = range(len(self))[at]
        return next(iter(self.between(at, at + 1)))

    def __iter__(self) -> Iterator[Message]:
        lives = self.times_to_live_ms
        count = len(self)
        nothing = (None,) * count
        start = 0
        for size, message_id, session_id, key, life, scheduled_at in zip(
            self.sizes,
            self.message_ids or ("",) * count,
            self.session_ids or nothing,
            self.partition_keys or nothing,
            (lives,) * count if lives is None or isinstance(lives, int) else lives,
            self.schedule or nothing,
            strict=True,
        ):
            yield Message(
                self.contents[start : start + size],
                message_id,
                session_id,
                key,
                life,
                None if scheduled_at is None else Instant(scheduled_at),
                self.expires_at,
            )
            start += size

    @property
    def is_alike(self) -> bool:
        """Whether messages differ in nothing but their contents and keys.

        So they all have a session or none has, and the same for the other fields.
        """
        return (
            self.message_ids is None
            and self.schedule is None
            and (self.times_to_live_ms is None or isinstance(self.times_to_live_ms, int))
            and (self.session_ids is None or None not in self.session_ids)
            and (self.partition_keys is None or None not in self.partition_keys)
            and self.session_ids in (None, self.partition_keys or self.session_ids)
        )

    def between(self, start: int, stop: int) -> "PackedMessages":
        """Return some of the messages that follow each other."""
        first = sum(self.sizes[:start])
        return self._cut(start, stop, first, first + sum(self.sizes[start:stop]))

    def pieces(self, *, count_max: int, bytes_max: int) -> Iterator["PackedMessages"]:
        """Cut into pieces of at most so many, and so many bytes unless one alone is more."""
        ends = list(accumulate(self.sizes, initial=0))
        start = 0
        while start < len(self):
            stop = bisect_right(ends, ends[start] + bytes_max) - 1
            stop = min(max(stop, start + 1), start + count_max, len(self))
            yield self._cut(start, stop, ends[start], ends[stop])
            start = stop

    def _cut(self, start: int, stop: int, first: int, end: int) -> "PackedMessages":
        """Return messages whose contents are between two bytes."""
        if stop - start == len(self):
            return self
        columns: dict[str, Any] = {
            name: column if column is None or isinstance(column, int) else column[start:stop]
            for name, column in self.columns()
        }
        return PackedMessages(
            self.contents[first:end],
            self.sizes[start:stop],
            **columns,
            expires_at=self.expires_at,
        )

    def columns(self) -> Iterator[tuple[str, Any]]:
        """Yield the name of every field beside contents and sizes, and what is said of it."""
        return ((name, getattr(self, name)) for name in _COLUMNS)


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Messages as columns, which differ in nothing that a queue must know of each of them.

    Beside their bodies they have ids and other texts, and all have a key or none has. None has a
    session or is scheduled, none is looked at for duplicates, and all live equally long.
    `columns.kept_rows` makes and reads the bytes.
    """

    count: int
    # How large they are as contents.
    content_bytes: int
    time_to_live_ms: int | None
    # Every column but the bodies, so that each can be read without the other.
    beside: bytes
    bodies: bytes

    def __len__(self) -> int:
        return self.count


_COLUMNS: Final = tuple(
    field.name
    for field in fields(PackedMessages)
    if field.name not in ("contents", "sizes", "expires_at")
)


# What a message has that has no such field, if that is not None.
_NOTHING: Final = {"message_ids": ""}


def joined(parts: Sequence[PackedMessages]) -> PackedMessages:
    """Put messages of several packs, at least one, into one, in their order."""
    if len(parts) == 1:
        return parts[0]
    sizes = array("I")
    for part in parts:
        sizes.extend(part.sizes)
    return PackedMessages(
        b"".join([part.contents for part in parts]),
        sizes,
        **{name: _joined_column(name, parts) for name in _COLUMNS},
    )


def _joined_column(name: str, parts: Sequence[PackedMessages]) -> Any:  # noqa: ANN401 - of any column
    columns = [getattr(part, name) for part in parts]
    first = columns[0]
    if (first is None or isinstance(first, int)) and all(each == first for each in columns):
        return first
    column: list[object] = []
    for part, each in zip(parts, columns, strict=True):
        if each is None:
            column += [_NOTHING.get(name)] * len(part)
        else:
            column += [each] * len(part) if isinstance(each, int) else each
    return column


def fields_to_text(messages: PackedMessages) -> str:
    """Write what messages have beside their contents and sizes, for a column."""
    said = {name: column for name, column in messages.columns() if column is not None}
    return json.dumps(said)


def unpack(contents: bytes, sizes: "array[int]", text: str) -> PackedMessages:
    """Make messages again of what was written."""
    return PackedMessages(contents, sizes, **json.loads(text))


def session_ids_of(messages: Sequence[Message]) -> set[str | None]:
    """Return the sessions that messages are of, packed or not."""
    if isinstance(messages, PackedMessages):
        return set(messages.session_ids or ())
    return {message.session_id for message in messages}
