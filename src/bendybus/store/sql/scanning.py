"""Reads many messages as columns, on a connection that only reads.

All statements of one scan see the same state of the store, and none of them returns a row per
message. Nothing is mended here: whatever is not as it was written raises `Suspicious`, and the lane
looks at those messages one by one (`damage`).
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import COUNTER_BITS
from bendybus.model.message import Marks
from bendybus.model.scanned import NO_INSTANT, Scanned, Slices
from bendybus.store.checksum import CHECKSUM_SIZE
from bendybus.store.checksums import are_intact, seeds_of
from bendybus.store.scan import Scan
from bendybus.store.sql.database import COUNTER_BITS_HERE, rows_of_queue
from bendybus.store.sql.packs import Found
from bendybus.store.sql.runs import RUN_LENGTH_MAX, Run
from bendybus.store.sql.scanned_packs import (
    Bounds,
    PackPart,
    found_packs,
    is_chosen,
    part_of,
    scanned_of,
)
from bendybus.store.sql.scanned_texts import marks_of, seeds_with_keys, slices_of
from bendybus.store.sql.scanner import Suspicious, Uneven

Numbers = NDArray[np.int64]

# As wide as the statement has bits for. One scan looks at so many stretches without a message.
IDS_TOGETHER_MAX: Final = 1 << 20
EMPTY_STRETCHES_MAX: Final = 32
_STATE_SHIFT, _STATE_MASK, _SIZE_SHIFT = 20, 0xF, 24
# What is not as it was written makes readers raise: numbers that do not fit, damaged marks, texts
# that are not UTF-8 or JSON, values of another type.
_UNREADABLE: Final = (ValueError, TypeError, OverflowError)


@dataclass(slots=True)
class _Rows:
    """What the rows of some messages say, without their texts."""

    ids: Numbers
    bodies: Numbers
    # Of contents, with their checksums.
    sizes: Numbers
    enqueued_at: Numbers
    delivery_counts: Numbers
    states: Numbers
    expires_at: Numbers
    has_keys: bool = False
    has_marks: bool = False

    @property
    def bytes(self) -> int:
        """How large the contents are."""
        return int(self.sizes.sum())


class ScanConnection(ABC):
    """A connection that only reads, and how its engine writes columns."""

    # Whether the engine keeps packs.
    has_packs = False

    def scan(self, request: Scan) -> Scanned:
        """Read the next messages. Raises `Suspicious`, `EntityNotFound` or the engine's errors."""
        self.begin()
        try:
            return _Reading(self, request).read()
        finally:
            self.end()

    @abstractmethod
    def begin(self) -> None:
        """See one state of the store from now on."""

    @abstractmethod
    def end(self) -> None:
        """Let go of what was seen."""

    @abstractmethod
    def row(self, name: str, *bindings: object) -> tuple[Any, ...] | None:
        """Execute a statement that returns at most one row."""

    @abstractmethod
    def array(self, ids: Numbers) -> object:
        """Bind many ids, at least one, as one parameter."""

    @abstractmethod
    def long_numbers(self, column: bytes | None, count: int) -> Numbers:
        """Read so many numbers of up to 50 bits. Raises `Uneven`."""

    @abstractmethod
    def short_numbers(self, column: bytes | None, count: int) -> Numbers:
        """Read so many lengths. Raises `Uneven`."""

    @abstractmethod
    def interrupt(self) -> None:
        """Break off a scan under way; called from any thread."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""


class _Reading:
    """One scan, within one state of the store."""

    def __init__(self, connection: ScanConnection, request: Scan) -> None:
        self._connection = connection
        self._request = request
        self._row = connection.row
        self._array = connection.array
        self._long_numbers = connection.long_numbers
        found = self._row("scan_fragment", request.queue)
        if found is None:
            raise EntityNotFound(f"The store holds no queue {request.queue}.")
        self._offset = (request.queue << COUNTER_BITS_HERE) - (found[0] << COUNTER_BITS)
        first, end = rows_of_queue(request.queue)
        self._end = min(end, max(first, request.until_sequence + self._offset))
        # The first number that is ever given is 1.
        self._start = min(self._end, max(first + 1, request.from_sequence + self._offset))

    def read(self) -> Scanned:
        """Find a stretch with messages that is not too large, and read it."""
        request = self._request
        if request.reservation is not None:
            return self._reserved(request.reservation)
        at, width = self._start, min(request.count_max, IDS_TOGETHER_MAX)
        looked, is_widened = 0, False
        while at < self._end and looked < EMPTY_STRETCHES_MAX:
            try:
                packs = self._packs(at)
                limit = min(self._end, packs[0].pack.first) if packs else self._end
                if limit <= at:
                    scanned, at = self._pack_columns(packs, at)
                    if scanned.count:
                        return scanned
                    looked += 1
                    continue
                end = min(at + width, limit)
                rows = self._rows(at, end)
                if not len(rows.ids):
                    looked += 1
                    at = self._next_row(end)
                    continue
                if rows.bytes > request.bytes_max and width > 1:
                    width = max(1, min(width // 2, width * request.bytes_max // rows.bytes))
                    continue
                if len(rows.ids) < width // 2 and not is_widened and end < limit:
                    # Few of these are left: as many as wanted stand on a longer stretch.
                    width, is_widened = self._width_of(at), True
                    continue
                return self._columns(rows, end)
            except _UNREADABLE as error:
                raise Suspicious from error
        return self._columns(_no_rows(), at)

    def _packs(self, row: int) -> list[Found]:
        """Return the next packs that reach beyond a row."""
        if not self._connection.has_packs:
            return []
        found = self._row("scan_packs", self._row_zero, self._end, row)
        assert found is not None, "an aggregate always has one row"
        return found_packs(found[0])

    def _pack_columns(self, packs: list[Found], start: int) -> tuple[Scanned, int]:
        """Read messages of packs that follow each other, and return where they end."""
        request = self._request
        parts: list[PackPart] = []
        at, left = start, Bounds(request.count_max, request.bytes_max)
        for found in packs:
            if found.pack.first > at or (parts and not left.has_room_for(found.pack)):
                break
            stop = min(self._end, left.stop_of(found.pack, at))
            if is_chosen(found, request):
                wanted = (
                    request.has_texts or request.partition_keys is not None,
                    request.has_bodies,
                )
                row = self._row("scan_chunk", found.pack.chunk, *wanted)
                parts.append(part_of(row, found, at, stop, request))
            left = left.less(found.pack, stop - at)
            at = stop
        following = at - self._offset if at < self._end else None
        return scanned_of(parts, self._offset, following), at

    def _reserved(self, number: int) -> Scanned:
        """Read a reservation; none is large."""
        try:
            if self._connection.has_packs:
                row = self._row("scan_reserved_pack", number)
                assert row is not None, "an aggregate always has one row"
                for found in found_packs(row[0]):
                    start = max(self._start, found.pack.first)
                    if start < min(self._end, found.pack.end):
                        return self._reserved_pack(found, start)
            row = self._row("scan_reserved_rows", self._start, self._end, number)
            assert row is not None, "an aggregate always has one row"
            ids = self._long_numbers(row[8], row[0]) + self._start
            return self._columns(self._made_rows(row, ids), self._end)
        except _UNREADABLE as error:
            raise Suspicious from error

    def _reserved_pack(self, found: Found, start: int) -> Scanned:
        """Read a pack that all of a reservation is."""
        scanned, stop = self._pack_columns([found], start)
        return replace(scanned, next_sequence=None) if stop >= found.pack.end else scanned

    def _rows(self, first: int, end: int) -> _Rows:
        name, more = "scan_rows", self._request.choice
        if self._request.is_choosy:
            name = "scan_chosen_rows"
        else:
            more = ()
        found = self._row(name, first, end, *more)
        assert found is not None, "an aggregate always has one row"
        ids = (self._long_numbers(found[1], found[0]) & (1 << _STATE_SHIFT) - 1) + first
        if len(ids) and (ids[-1] >= end or (np.diff(ids) <= 0).any()):
            raise Uneven
        rows = self._made_rows(found, ids)
        runs = self._runs(first, end)
        return _with_runs(rows, runs, self._run_sizes(runs)) if runs else rows

    def _made_rows(self, found: tuple[Any, ...], ids: Numbers) -> _Rows:
        """Read what the columns of a statement say, and ask for what it only counted."""
        count, packed, enqueued_digits, deliveries_max, moved, expiring, keyed, marked, *_ = found
        if not count:
            return _no_rows()
        numbers = self._long_numbers(packed, count)
        return _Rows(
            ids,
            self._bodies(ids) if moved else ids,
            numbers >> _SIZE_SHIFT,
            self._long_numbers(enqueued_digits, count),
            self._delivery_counts(ids) if deliveries_max else np.zeros(count, np.int64),
            numbers >> _STATE_SHIFT & _STATE_MASK,
            self._expiries(ids) if expiring else np.full(count, NO_INSTANT, np.int64),
            keyed > 0,
            marked > 0,
        )

    def _bodies(self, ids: Numbers) -> Numbers:
        """Return the rows of the bodies; mostly as far from the messages as each other."""
        found = self._row("scan_body_span", self._array(ids))
        assert found is not None, "an aggregate always has one row"
        least: int = found[0]
        if least == found[1]:
            return ids + least
        found = self._row("scan_body_ids", self._array(ids))
        assert found is not None, "an aggregate always has one row"
        return np.array(json.loads(found[0]), np.int64)

    def _delivery_counts(self, ids: Numbers) -> Numbers:
        found = self._row("scan_delivery_counts", self._array(ids))
        assert found is not None, "an aggregate always has one row"
        return self._long_numbers(found[0], len(ids))

    def _expiries(self, ids: Numbers) -> Numbers:
        found = self._row("scan_lives", self._array(ids))
        assert found is not None, "an aggregate always has one row"
        expires_at = self._long_numbers(found[0], len(ids)) - 1
        expires_at[expires_at < 0] = NO_INSTANT
        return expires_at

    def _runs(self, first: int, end: int) -> list[Run]:
        """Return the runs of a stretch, cut to it."""
        choice = self._request
        found = self._row("scan_runs", max(first - RUN_LENGTH_MAX + 1, self._row_zero), end)
        assert found is not None, "an aggregate always has one row"
        runs: list[Run] = []
        for *values, checksum in json.loads(found[0]):
            run = Run(*values)
            if run.checksum != checksum:
                raise Uneven
            start, stop = max(first, run.first), min(end, run.first + run.length)
            if start < stop and _is_run_chosen(run, choice):
                body = run.body + start - run.first
                runs.append(Run(start, stop - start, body, run.enqueued_at, run.expires_at))
        return runs

    @property
    def _row_zero(self) -> int:
        return rows_of_queue(self._request.queue)[0]

    def _run_sizes(self, runs: list[Run]) -> Numbers:
        """Say how large the contents of runs are; no row says it."""
        spans = json.dumps([(run.body, run.body + run.length) for run in runs])
        found = self._row("scan_run_sizes", spans)
        assert found is not None, "an aggregate always has one row"
        return self._connection.short_numbers(found[0], sum(run.length for run in runs))

    def _next_row(self, row: int) -> int:
        """Return the next row that may be a message."""
        found = self._row("scan_next", row, self._end)
        assert found is not None, "a row of values, always"
        # A run that began before may reach beyond the row.
        reach = self._row("scan_runs", max(row - RUN_LENGTH_MAX + 1, self._row_zero), row)
        assert reach is not None, "an aggregate always has one row"
        if any(first + length > row for first, length, *_ in json.loads(reach[0])):
            return row
        rows: list[int] = [each for each in found if each is not None]
        return min(rows, default=self._end)

    def _width_of(self, first: int) -> int:
        """Return how many ids there are up to as many messages as are wanted."""
        widest = min(self._end, first + IDS_TOGETHER_MAX)
        found = self._row("scan_end", first, widest, self._request.count_max)
        end: int = widest if found is None else found[0]
        return end - first

    def _columns(self, rows: _Rows, end: int) -> Scanned:
        """Read the texts of some rows."""
        count = len(rows.ids)
        sessions = keys = contents = None
        marks: list[Marks | None] | None = None
        if rows.has_keys:
            found = self._row("scan_keys", self._array(rows.ids))
            assert found is not None, "an aggregate always has one row"
            sessions = self._slices(found[0], found[1], count)
            keys = self._slices(found[2], found[3], count)
        if rows.has_marks:
            found = self._row("scan_marks", self._array(rows.ids))
            assert found is not None, "an aggregate always has one row"
            marks = marks_of(self._slices(found[0], found[1], count))
        if self._request.has_contents and count:
            contents = self._contents(rows, sessions, keys)
        return Scanned(
            count=count,
            next_sequence=end - self._offset if end < self._end else None,
            sequences=(rows.ids - self._offset).data,
            enqueued_at=rows.enqueued_at.data,
            delivery_counts=rows.delivery_counts.data,
            states=rows.states.data,
            expires_at=rows.expires_at.data,
            session_ids=sessions,
            partition_keys=keys,
            marks=marks,
            contents=contents,
        )

    def _contents(self, rows: _Rows, sessions: Slices | None, keys: Slices | None) -> Slices:
        bodies = rows.bodies
        first, last = int(bodies[0]), int(bodies[-1])
        if last - first == len(bodies) - 1 and (np.diff(bodies) == 1).all():
            found = self._row("scan_bodies", first, last + 1)
        else:
            found = self._row("scan_bodies_of", self._array(bodies))
        assert found is not None, "an aggregate always has one row"
        joined: bytes = found[0] or b""
        ends = np.cumsum(rows.sizes)
        starts = ends - rows.sizes
        seeds = seeds_of(bodies, rows.enqueued_at)
        if sessions is not None and keys is not None:
            seeds = seeds_with_keys(seeds, sessions, keys)
        if ends[-1] != len(joined) or not are_intact(joined, starts, seeds):
            raise Uneven
        return Slices(joined, starts.data, (ends - CHECKSUM_SIZE).data)

    def _slices(self, lengths: bytes | None, joined: bytes | None, count: int) -> Slices:
        return slices_of(self._connection.short_numbers(lengths, count), joined or b"")


def _no_rows() -> _Rows:
    none = np.zeros(0, np.int64)
    return _Rows(none, none, none, none, none, none, none)


def _is_run_chosen(run: Run, request: Scan) -> bool:
    """Say whether a scan wants the messages of a run, which are active and have no keys."""
    if request.session_ids is not None or request.partition_keys is not None:
        return False
    if request.states is not None and 0 not in request.states:
        return False
    since, until = request.enqueued_from, request.enqueued_until
    return (since is None or run.enqueued_at >= since) and (
        until is None or run.enqueued_at < until
    )


def _with_runs(rows: _Rows, runs: list[Run], sizes: Numbers) -> _Rows:
    """Put the messages of runs among the others. None of them has keys or marks."""
    lengths = np.array([run.length for run in runs], np.int64)
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    def spread(values: list[int]) -> Numbers:
        return np.repeat(np.array(values, np.int64), lengths)

    ids = spread([run.first for run in runs]) + steps
    bodies = spread([run.body for run in runs]) + steps
    expires_at = spread([run.expires_at or NO_INSTANT for run in runs])
    zeros = np.zeros(len(ids), np.int64)
    enqueued_at = spread([run.enqueued_at for run in runs])
    order = np.argsort(np.concatenate([rows.ids, ids]), kind="stable")

    def joined(of_rows: Numbers, of_runs: Numbers) -> Numbers:
        return np.concatenate([of_rows, of_runs])[order]

    return _Rows(
        joined(rows.ids, ids),
        joined(rows.bodies, bodies),
        joined(rows.sizes, sizes),
        joined(rows.enqueued_at, enqueued_at),
        joined(rows.delivery_counts, zeros),
        joined(rows.states, zeros),
        joined(rows.expires_at, expires_at),
        rows.has_keys,
        rows.has_marks,
    )
