"""Copies all stores of a data folder, as they are at one instant, while a broker works on them."""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from bendybus import __version__
from bendybus.model.errors import BackupUnusable, DataFolderUnusable
from bendybus.store.sqlite.backup_contents import (
    LIST_FILE,
    BackupContents,
    CopiedStore,
    OnBytes,
    checksum_of,
    write_list,
)
from bendybus.store.sqlite.data_folder import last_broker_on, moved_stores, store_files
from bendybus.store.sqlite.one_cut import one_cut

# Copied between two looks at whether a broker has started: a few milliseconds' worth.
_PAGES_TOGETHER: Final = 1024
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600

# Told how many bytes are copied, and how many there are.
OnCopied = Callable[[int, int], None]


class Backup(NamedTuple):
    """What was copied, and for how long nobody could write."""

    contents: BackupContents
    pause_seconds: float


def back_up(data: Path, folder: Path, on_copied: OnCopied) -> Backup:
    """Copy the stores of a data folder to a folder that is empty or not there.

    Raises `DataFolderUnusable` and `BackupUnusable`. Cut off anywhere, it leaves a folder that
    cannot be restored and says so.
    """
    files = _stores_to_copy(data)
    _make_empty(folder)
    since = last_broker_on(data)
    copied: list[CopiedStore] = []
    with one_cut(files) as snapshots:
        made_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        sizes = {at: _size(connection) for at, connection in snapshots.connections.items()}
        _check_complete(files, snapshots.connections)
        for number, connection in snapshots.connections.items():
            done = sum(store.size for store in copied)

            def on_bytes(count: int, done: int = done) -> None:
                if last_broker_on(data) != since or snapshots.must_let_go:
                    raise _given_way(data)
                on_copied(done + count, sum(sizes.values()))

            copied.append(_copy(connection, folder / files[number].name, on_bytes))
            # From here on the log of this one can begin anew.
            connection.close()
    contents = BackupContents(__version__, made_at, tuple(copied))
    write_list(folder, contents)
    return Backup(contents, snapshots.pause_seconds)


def _given_way(data: Path) -> DataFolderUnusable:
    """A broker that starts puts the logs in order, which it can only do alone."""
    return DataFolderUnusable(
        f"a broker started on {data} while it was copied, and needs the stores for itself then;"
        " empty the backup's folder and run this again"
    )


def _stores_to_copy(data: Path) -> dict[int, Path]:
    if not data.is_dir():
        raise DataFolderUnusable(f"{data} is no data folder; say where it is with --data")
    for number in moved_stores(data):
        raise DataFolderUnusable(
            f"store {number} of {data} was moved to PostgreSQL: what is there and what is here"
            " cannot be copied as of one instant. Move the other stores, too (bendybus store move),"
            " and take pg_basebackup; until then, stop the broker, and copy the folder and pg_dump"
            " the databases (docs/backup.md)"
        )
    files = store_files(data)
    if not files:
        raise DataFolderUnusable(f"{data} holds no stores; say where they are with --data")
    for number in range(max(files)):
        if number not in files:
            raise _missing(data, number)
    return dict(sorted(files.items()))


def _check_complete(files: Mapping[int, Path], connections: Mapping[int, apsw.Connection]) -> None:
    """Make sure that no store is missing that the others tell of."""
    for connection in connections.values():
        [(last,)] = connection.execute(
            "SELECT max(place.value ->> 0) FROM entity, json_each(entity.places) AS place"
        )
        if last is not None and last not in files:
            raise _missing(files[0].parent, last)


def _missing(data: Path, number: int) -> DataFolderUnusable:
    return DataFolderUnusable(
        f"store {number} is missing in {data}, and a backup without it could not be restored;"
        " bring it back first"
    )


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise BackupUnusable(f"cannot make the folder {folder}: {error.strerror}") from None
    if (folder / LIST_FILE).exists():
        raise BackupUnusable(f"{folder} holds a backup already; choose another folder")
    if not is_empty:
        raise BackupUnusable(
            f"{folder} is not empty, and holds no complete backup; choose another folder, or empty"
            " it"
        )


def _size(connection: apsw.Connection) -> int:
    [(pages,)] = connection.execute("PRAGMA page_count")
    [(page_size,)] = connection.execute("PRAGMA page_size")
    return int(pages * page_size)


def _copy(snapshot: apsw.Connection, path: Path, on_bytes: OnBytes) -> CopiedStore:
    """Copy a file page by page, wait until it is on disk, and read it again for its checksum."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE))
    copy = apsw.Connection(str(path))
    try:
        # If this is cut off nobody restores it, so it need not be possible to undo it.
        copy.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")
        [(page_size,)] = snapshot.execute("PRAGMA page_size")
        with copy.backup("main", snapshot, "main") as pages:
            while not pages.done:
                pages.step(_PAGES_TOGETHER)
                on_bytes((pages.page_count - pages.remaining) * page_size)
    except apsw.Error as error:
        raise BackupUnusable(f"cannot copy to {path}: {error}") from None
    finally:
        copy.close()
    with path.open("rb") as file:
        os.fsync(file.fileno())
    size = path.stat().st_size
    return CopiedStore(path.name, size, checksum_of(path, lambda _: on_bytes(size)))
