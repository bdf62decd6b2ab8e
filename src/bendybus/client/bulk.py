"""The client of the bulk door: messages as Arrow record batches, read, reserved and staged.

It needs pyarrow (`pip install bendybus[bulk]`). All calls block. Calls that fail because nobody
answers, or because the broker is busy, are made again for a while: each may be made any number of
times to the same effect. A client can be pickled; it connects when it is first used.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa
from pyarrow import flight

from bendybus.client.bulk_calls import LONG_SECONDS_MAX, BulkCalls, Patience, as_json
from bendybus.client.bulk_errors import translated
from bendybus.client.bulk_reading import positions_left, ranges_left
from bendybus.client.bulk_values import (
    Description,
    Fragment,
    OpenedReader,
    Place,
    Positions,
    Published,
    Range,
    RejectedRow,
    Reserved,
    Staged,
    StageLabel,
)
from bendybus.client.errors import ClientError
from bendybus.model.ids import sequence_number


class Reading:
    """Record batches as they come, and the fragments that were left out."""

    def __init__(self, batches: Callable[["Reading"], Iterator[pa.RecordBatch]]) -> None:
        self.skipped: tuple[int, ...] = ()
        self._batches = batches(self)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def note_skipped(self, fragments: Iterable[int]) -> None:
        """Note fragments whose store is away."""
        self.skipped = tuple(sorted({*self.skipped, *fragments}))


class BulkClient(BulkCalls):
    """Reads and writes one namespace in bulk. Raises `ClientError` and its kinds."""

    # Reading

    def describe(self, place: Place) -> Description:
        """Say what an entity is like, and how far each fragment goes now."""
        told = self.ask("describe", place, {})
        fragments = tuple(Fragment(**each) for each in told.pop("fragments"))
        return Description(**told, fragments=fragments)

    def read(
        self,
        place: Place,
        *,
        columns: Sequence[str] | None = None,
        ranges: Sequence[Range] | None = None,
        states: Sequence[str] | None = None,
        filters: Sequence[Sequence[object]] = (),
        skip_offline: bool = False,
        batch_rows: int | None = None,
    ) -> Reading:
        """Read messages without touching them; without ranges, all that is there now.

        A filter is a column, an operator (= < <= > >= in) and a value. Who is cut off goes on
        where it was.
        """
        wish = {
            "columns": None if columns is None else list(columns),
            "states": None if states is None else list(states),
            "filters": [list(each) for each in filters],
            "skip_offline": skip_offline,
            "batch_rows": batch_rows,
        }

        def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
            left = list(self._everything(place) if ranges is None else ranges)
            yield from self._streamed(reading, place, wish, "ranges", left, ranges_left)

        return Reading(batches)

    def read_reserved(
        self,
        place: Place,
        reader: str,
        token: str,
        positions: Sequence[Positions],
        *,
        columns: Sequence[str] | None = None,
        skip_offline: bool = False,
        batch_rows: int | None = None,
    ) -> Reading:
        """Read what a reader has reserved: the same every time, until it is committed."""
        wish = {
            "columns": None if columns is None else list(columns),
            "reader": reader,
            "token": token,
            "skip_offline": skip_offline,
            "batch_rows": batch_rows,
        }

        def batches(reading: Reading) -> Iterator[pa.RecordBatch]:
            left = list(positions)
            yield from self._streamed(reading, place, wish, "positions", left, positions_left)

        return Reading(batches)

    def _everything(self, place: Place) -> Iterator[Range]:
        for each in self.describe(place).fragments:
            first, until = each.first_sequence, each.next_sequence
            if first is None or until is None:
                # Its store is away: the broker refuses, or says that it was skipped.
                first = sequence_number(each.fragment, 0)
                until = sequence_number(each.fragment + 1, 0)
            yield Range(each.fragment, first, until)

    def _streamed(
        self,
        reading: Reading,
        place: Place,
        wish: Mapping[str, object],
        name: str,
        left: list[Any],
        after: Callable[[Sequence[Any], dict[str, Any]], list[Any]],
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches until there is nothing left; go on behind the last one after a failure."""
        patience = Patience(self.patience_seconds)
        while left:
            parts = [{_WIRE_NAMES.get(k, k): v for k, v in asdict(each).items()} for each in left]
            ticket = {**asdict(place), **wish, name: parts}
            try:
                with translated(self.endpoint):
                    stream = self.connected().do_get(
                        flight.Ticket(as_json(ticket)), self.options(place)
                    )
                    while True:
                        chunk = stream.read_chunk()
                        told = json.loads(chunk.app_metadata.to_pybytes())
                        reading.note_skipped(told["skipped"])
                        if told["is_end"]:
                            # Whether it ended well is known only behind the end.
                            for _ in stream:
                                pass
                            return
                        yield chunk.data
                        left = after(left, told)
                        patience = Patience(self.patience_seconds)
            except ClientError as error:
                patience.wait_after(error)

    # Reserving

    def open_reader(
        self, place: Place, reader: str, token: str | None = None, *, skip_offline: bool = False
    ) -> OpenedReader:
        """Begin to reserve messages under a name, or take over what was reserved under it.

        With a token of one's own choice it may be called again; without, it is tried once.
        """
        body = {"reader": reader, "token": token, "skip_offline": skip_offline}
        told = self.ask("open_reader", place, body, is_repeated=token is not None)
        return OpenedReader(told["token"], _numbers(told["committed"]), tuple(told["skipped"]))

    def reserve(  # noqa: PLR0913 - all but the first are options of the call
        self,
        place: Place,
        reader: str,
        token: str,
        start: Mapping[int, int],
        *,
        before: Mapping[int, int] | None = None,
        messages_max: int | None = None,
        bytes_max: int | None = None,
        skip_offline: bool = False,
    ) -> Reserved:
        """Return what is reserved behind some positions, and reserve more up to the bounds.

        `before` ends a fragment at a sequence number, which is not among those reserved.
        """
        body = {
            "reader": reader,
            "token": token,
            "start": _texts(start),
            "before": None if before is None else _texts(before),
            "messages_max": messages_max,
            "bytes_max": bytes_max,
            "skip_offline": skip_offline,
        }
        return _reserved(self.ask("reserve", place, body, seconds=LONG_SECONDS_MAX))

    def reserve_chosen(
        self, place: Place, reader: str, token: str, sequences: Mapping[int, Sequence[int]]
    ) -> Reserved:
        """Reserve those of the messages, named by fragment and sequence number, that are free."""
        named = {str(fragment): list(some) for fragment, some in sequences.items()}
        body = {"reader": reader, "token": token, "sequences": named}
        # Asked again, those that the first try got would be left out.
        return _reserved(self.ask("reserve", place, body, is_repeated=False))

    def commit(self, place: Place, reader: str, token: str, until: Mapping[int, int]) -> None:
        """Complete the messages that a reader has reserved, up to a position of each fragment."""
        body = {"reader": reader, "token": token, "until": _texts(until)}
        self.ask("commit", place, body, seconds=LONG_SECONDS_MAX)

    def close_reader(self, place: Place, reader: str, token: str) -> None:
        """Say that a reader is in use no longer, so that another may open it at once.

        What it has reserved stays reserved.
        """
        self.ask("close_reader", place, {"reader": reader, "token": token})

    def give_back(
        self, place: Place, reader: str, token: str | None = None, *, skip_offline: bool = False
    ) -> int:
        """Free what a reader has reserved, and forget it; return how many messages that was.

        Without its token this takes the right to manage. Asked again after a failure, it may find
        that there is no such reader any more.
        """
        body = {"reader": reader, "token": token, "skip_offline": skip_offline}
        told = self.ask("give_back", place, body, is_repeated=False, seconds=LONG_SECONDS_MAX)
        return int(told["messages"])

    def readers(self, place: Place) -> list[dict[str, Any]]:
        """Say who reserves messages, how much, and since when."""
        found: list[dict[str, Any]] = self.ask("readers", place, {})["readers"]
        return found

    # Writing

    def stage(
        self,
        place: Place,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        label: StageLabel,
        *,
        on_bad_row: str = "fail",
    ) -> Staged:
        """Keep rows, on disk, that become messages when their batch is published.

        A row that cannot be a message fails the stage, or is rejected and told (`reject`).
        """
        command = {**asdict(place), **asdict(label), "on_bad_row": on_bad_row}
        descriptor = flight.FlightDescriptor.for_command(as_json(command))
        with translated(self.endpoint):
            sink, answers = self.connected().do_put(descriptor, schema, self.options(place))
            with sink:
                for each in batches:
                    sink.write_batch(each)
                sink.done_writing()
                answer = answers.read()
        told = json.loads(answer.to_pybytes())
        rejected = tuple(RejectedRow(**each) for each in told["rejected"])
        return Staged(told["stage"], told["rows"], told["bytes"], rejected)

    def publish(self, place: Place, writer: str, batch: int, stages: Sequence[str]) -> Published:
        """Let the stages of a batch become messages, once however often it is asked for."""
        body = {"writer": writer, "batch": batch, "stages": list(stages)}
        told = self.ask("publish", place, body, seconds=LONG_SECONDS_MAX)
        return Published(told["rows"], told["already"], told["damaged_rows"])

    def abandon(self, place: Place, writer: str, batch: int, stages: Sequence[str]) -> None:
        """Forget stages that will not be published."""
        self.ask("abandon", place, {"writer": writer, "batch": batch, "stages": list(stages)})


# Of ranges and positions, where Python has a word of its own.
_WIRE_NAMES: Final = {"first": "from"}


def _numbers(given: Mapping[str, int]) -> dict[int, int]:
    return {int(fragment): number for fragment, number in given.items()}


def _texts(given: Mapping[int, int]) -> dict[str, int]:
    return {str(fragment): number for fragment, number in given.items()}


def _reserved(told: dict[str, Any]) -> Reserved:
    return Reserved(
        _numbers(told["end"]),
        _numbers(told["lag"]),
        told["messages"],
        told["bytes"],
        tuple(told["skipped"]),
    )
