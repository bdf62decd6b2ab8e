"""Copies a store to another place beside its traffic, and lets the place change in one act.

1. From the beginning the source notes the key of every row that changes.
2. Table by table, in the order of keys, the rows are copied up to the last that there was at the
   beginning. Between two pages what was noted is taken: a row that was copied already, or is new,
   is copied again, or deleted there; of one that is still to come nothing is done. So the notes
   stay few, however long it takes.
3. When all tables are through, what was noted meanwhile is taken, until it is little.
4. Then the source stands still: the rest is taken, the target commits, and the source writes down,
   in one act, that it is elsewhere. Before it the source is the store, and all that was copied may
   be thrown away; after it the target is. Nobody has to ask both.

Whatever ends this in the middle leaves the source as it was. Whoever begins anew copies anew,
except for contents, which are most of it: those that are there already are left.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from bendybus.store.moving.tables import BODY, SEEN, TABLES, Key, MovedTable, Row

# What is copied together, unless one alone is more.
BYTES_TOGETHER: Final = 1 << 20
# How often what was noted is taken while all is copied, and how often in a row.
FOLLOW_SECONDS: Final = 0.25
TAKEN_TOGETHER_MAX: Final = 20
CATCH_UP_SECONDS_MAX: Final = 300.0
# And for so long at most: what waits for it is not refused before.
PAUSE_SECONDS_MAX: Final = 3.0
PAUSES_MAX: Final = 10


class MoveFailed(Exception):
    """A store could not be moved, and is where it was; the text says why and what to do."""


class _TooLong(Exception):
    """Others have waited long enough."""


_TOO_FAST: Final = (
    "the store changes faster than it can be copied; try again when there is less traffic"
)


class Change(NamedTuple):
    """Rows that changed: their keys, and those of them that are still there."""

    table: MovedTable
    keys: Sequence[Key]
    rows: Sequence[Row]


class Taken(NamedTuple):
    """Some of what changed, and whether there is more than a little of it left."""

    changes: Sequence[Change]
    has_more: bool


class Place(Protocol):
    """Where a store's tables can be read."""

    def last_key(self, table: MovedTable) -> Key | None:
        """Return the highest key; None if there are no rows."""
        ...

    def page(self, table: MovedTable, after: Key | None) -> Sequence[Row]:
        """Return the next rows in the order of their keys; none when there are no more."""
        ...

    def content_sizes(self, after: int) -> Sequence[tuple[int, int]]:
        """Return the ids and sizes of the next contents."""
        ...

    def contents(self, ids: Sequence[int]) -> Sequence[Row]:
        """Return those of these contents that are there."""
        ...

    def seen_page(self, after: Key | None) -> tuple[Sequence[Row], Key | None]:
        """Return the next ids of duplicate detection, and where the following begin."""
        ...


class Notes(Protocol):
    """What a source has noted."""

    def take(self) -> Taken:
        """Return some of what changed and was not taken yet, as it is now; none if nothing did."""
        ...


class Source(Place, Notes, Protocol):
    """The place that the store is at."""

    def begin(self) -> None:
        """Note from here on what changes."""
        ...

    def message_count(self) -> int:
        """How many messages there are, about."""
        ...

    def switch(self, finish: Callable[[Notes, Mapping[str, int]], None]) -> None:
        """Stand still while `finish` takes what is left, then be elsewhere.

        It is given the highest numbers that were given. If it raises, nothing has changed.
        """
        ...

    def end(self) -> None:
        """Note nothing any more."""
        ...


class Target(Protocol):
    """The place that the store is to be at: nobody's until then."""

    def prepare(self) -> None:
        """Empty it, but for contents."""
        ...

    def content_ids(self, after: int, until: int | None) -> set[int]:
        """Return the contents that are there already, within ids."""
        ...

    def add(self, table: MovedTable, rows: Sequence[Row]) -> None:
        """Write rows that are not there."""
        ...

    def replace(self, changes: Sequence[Change]) -> None:
        """Make rows be as they are at the source, or not be."""
        ...

    def complete(self, numbers: Mapping[str, int]) -> None:
        """Wait until everything is safe; numbers up to these were given."""
        ...


@dataclass(slots=True)
class Progress:
    """How far it is."""

    rows: int = 0
    # About: of what there was when it began.
    rows_total: int = 0
    # Contents that an earlier try had copied.
    kept: int = 0
    caught_up: int = 0
    pause_seconds: float = 0.0
    followed_at: float = 0.0
    stage: str = "copying"
    # Why it failed, if it did.
    reason: str | None = None
    # Up to which key each table is copied, and up to which it is to be; None when it is.
    positions: dict[str, Key | None] = field(default_factory=dict)
    ends: dict[str, Key | None] = field(default_factory=dict)


def move(source: Source, target: Target, progress: Progress) -> None:
    """Move what the source holds to the target. Blocks; raises whatever either of them raises."""
    source.begin()
    try:
        progress.rows_total = 2 * source.message_count()
        progress.ends = {table.name: source.last_key(table) for table in TABLES}
        target.prepare()
        for table in TABLES:
            if table is BODY:
                _copy_contents(source, target, progress)
            else:
                _copy(source, target, table, progress)
        _copy_seen(source, target, progress)
        for _ in range(PAUSES_MAX):
            progress.stage = "catching up"
            _catch_up(source, target, progress)
            progress.stage = "switching"
            if _switch(source, target, progress):
                break
        else:
            raise MoveFailed(_TOO_FAST)
        progress.stage = "done"
    finally:
        source.end()


def _switch(source: Source, target: Target, progress: Progress) -> bool:
    """Let the place change; False if the rest was too much for others to wait for."""
    begun = time.monotonic()

    def finish(notes: Notes, numbers: Mapping[str, int]) -> None:
        while changes := notes.take().changes:
            target.replace(changes)
            if time.monotonic() - begun > PAUSE_SECONDS_MAX:
                raise _TooLong
        target.complete(numbers)

    try:
        source.switch(finish)
    except _TooLong:
        return False
    progress.pause_seconds = time.monotonic() - begun
    return True


def _copy(source: Source, target: Target, table: MovedTable, progress: Progress) -> None:
    end = progress.ends[table.name]
    after: Key | None = None
    while end is not None and after != end:
        page = source.page(table, after)
        rows = [row for row in page if table.key_of(row) <= end]
        if not rows:
            break
        target.add(table, rows)
        after = progress.positions[table.name] = table.key_of(rows[-1])
        progress.rows += len(rows)
        _follow(source, target, progress)
    progress.ends[table.name] = None


def _copy_contents(source: Source, target: Target, progress: Progress) -> None:
    end = progress.ends[BODY.name]
    last = -1 if end is None else end[0]
    after = -1
    while after < last:
        sizes = [each for each in source.content_sizes(after) if each[0] <= last]
        until = sizes[-1][0] if sizes else last
        there = target.content_ids(after, until)
        if gone := there.difference(number for number, _ in sizes):
            target.replace([Change(BODY, [(number,) for number in gone], ())])
        missing = [each for each in sizes if each[0] not in there]
        for ids in _together(missing):
            target.add(BODY, source.contents(ids))
        progress.rows += len(sizes)
        progress.kept += len(sizes) - len(missing)
        after = until
        progress.positions[BODY.name] = (after,)
        _follow(source, target, progress)
    progress.ends[BODY.name] = None


def _together(sizes: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Cut ids into groups whose contents are read at once."""
    groups: list[list[int]] = []
    room = 0
    for number, size in sizes:
        if size > room or not groups:
            groups.append([])
            room = BYTES_TOGETHER
        groups[-1].append(number)
        room -= size
    return groups


def _copy_seen(source: Source, target: Target, progress: Progress) -> None:
    after: Key | None = None
    while True:
        rows, after = source.seen_page(after)
        if rows:
            target.replace([Change(SEEN, [SEEN.key_of(row) for row in rows], rows)])
            progress.rows += len(rows)
        _follow(source, target, progress)
        if after is None:
            return


def _follow(source: Source, target: Target, progress: Progress) -> None:
    """Take what was noted, now and then, and do it unless the copy is still to come there."""
    if time.monotonic() - progress.followed_at < FOLLOW_SECONDS:
        return
    for _ in range(TAKEN_TOGETHER_MAX):
        changes, has_more = source.take()
        coming = [
            {key for key in keys if _is_coming(progress, table, key)} for table, keys, _ in changes
        ]
        target.replace(
            [
                Change(
                    table,
                    [key for key in keys if key not in still],
                    [row for row in rows if table.key_of(row) not in still],
                )
                for (table, keys, rows), still in zip(changes, coming, strict=True)
            ]
        )
        progress.caught_up += sum(len(change.keys) for change in changes)
        if not has_more:
            break
    progress.followed_at = time.monotonic()


def _is_coming(progress: Progress, table: MovedTable, key: Key) -> bool:
    end = progress.ends.get(table.name)
    if end is None or key > end:
        return False
    position = progress.positions.get(table.name)
    return position is None or key > position


def _catch_up(source: Source, target: Target, progress: Progress) -> None:
    deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
    while time.monotonic() < deadline:
        changes, has_more = source.take()
        target.replace(changes)
        progress.caught_up += sum(len(change.keys) for change in changes)
        if not has_more:
            return
    raise MoveFailed(_TOO_FAST)
