"""Rows that cannot be messages: kept aside in a task, and put into the user's folder as Parquet.

Below the folder there is one folder per batch, `writer=…/batch=…`, which is made anew when the
batch is repeated: each row that was refused is there once, with the reason.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs, parquet

from bendybus.client.bulk_values import RejectedRow

REASON: Final = "reject_reason"
# Spark does not read files in folders whose names begin so.
STAGING: Final = "_staging"


class KeptRows:
    """The rows of a task, in a temporary file, until it is known which are refused."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._file = tempfile.TemporaryFile() if is_wanted else None  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def noting(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass batches on, and keep them."""
        if self._file is None:
            yield from batches
            return
        first = next(batches)
        with pa.ipc.new_stream(self._file, first.schema) as stream:
            stream.write_batch(first)
            yield first
            for batch in batches:
                stream.write_batch(batch)
                yield batch

    def rejected(self, why: Sequence[RejectedRow]) -> Iterator[pa.RecordBatch]:
        """Yield the refused rows with the reason, by their numbers in the task."""
        assert self._file is not None
        self._file.seek(0)
        reasons = {each.row: each.why for each in why}
        first_row = 0
        for batch in pa.ipc.open_stream(self._file):
            rows = [row for row in range(batch.num_rows) if first_row + row in reasons]
            if rows:
                taken = batch.take(pa.array(rows))
                texts = pa.array([reasons[first_row + row] for row in rows], pa.string())
                yield taken.append_column(REASON, texts)
            first_row += batch.num_rows


class RejectFolder:
    """The user's folder: a path that all workers share, or a URI that Arrow knows."""

    def __init__(self, path: str) -> None:
        self._path = path

    def stage(self, batches: Iterable[pa.RecordBatch]) -> str:
        """Write the refused rows of a task where nobody reads them yet; return the file."""
        files, folder = self._opened()
        files.create_dir(f"{folder}/{STAGING}", recursive=True)
        path = f"{folder}/{STAGING}/{uuid4().hex}.parquet"
        table = pa.Table.from_batches(batches)
        parquet.write_table(table, path, filesystem=files)
        return path

    def place(self, staged: Sequence[str], writer: str, batch: int) -> None:
        """Make these the refused rows of a batch, instead of those of an earlier attempt."""
        files, folder = self._opened()
        place = f"{folder}/writer={_plain(writer)}/batch={batch}"
        if files.get_file_info(place).type is not fs.FileType.NotFound:
            files.delete_dir(place)
        if not staged:
            return
        files.create_dir(place, recursive=True)
        for number, path in enumerate(sorted(staged)):
            files.move(path, f"{place}/part-{number:05}.parquet")

    def drop(self, staged: Sequence[str]) -> None:
        """Forget the refused rows of tasks whose batch failed."""
        files, _ = self._opened()
        for path in staged:
            if files.get_file_info(path).type is fs.FileType.File:
                files.delete_file(path)

    def _opened(self) -> tuple[fs.FileSystem, str]:
        if "://" in self._path:
            files, path = fs.FileSystem.from_uri(self._path)
            return files, path.rstrip("/")
        return fs.LocalFileSystem(), self._path.rstrip("/")


def _plain(name: str) -> str:
    """Return a name that can be a folder."""
    return re.sub(r"[^\w.-]", "_", name)
