"""Puts the stores of a backup into a data folder: all of them, or none.

1. The backup is compared with its list, before anything changes.
2. Its files are copied into `restoring/`, synced, and compared again as they are copied.
3. The list is copied there, last. From then on the restore holds, and whoever comes next completes
   it: this command, run again, or a broker that starts.
4. What was in the data folder goes to `before-restore-…/`, and the new files take its place. A file
   that is still in `restoring/` is one whose place is not free yet.
"""

import hashlib
import os
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from bendybus.model.errors import DataFolderUnusable
from bendybus.store.sqlite.backup_contents import (
    BYTES_TOGETHER,
    LIST_FILE,
    BackupContents,
    CopiedStore,
    OnBytes,
    check_files,
    damaged,
    read_list,
    write_list,
)
from bendybus.store.sqlite.data_folder import (
    COMPANIONS,
    MOVED,
    held,
    moved_stores,
    store_file,
    store_files,
    sync_folder,
    url_file,
)

_RESTORING: Final = "restoring"
_REPLACED: Final = "before-restore"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


def restore(folder: Path, data: Path, *, is_forced: bool, on_bytes: OnBytes) -> BackupContents:
    """Put a backup into a data folder that has no stores, or, if forced, in place of what it has.

    `on_bytes` is told of each byte twice: it is compared, then copied. Raises `BackupUnusable`,
    `DataFolderUnusable` and, while a broker runs there, `DataFolderInUse`.
    """
    contents = read_list(folder)
    check_files(folder, contents, on_bytes)
    data.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    with held(data):
        complete_restore(data)
        if (store_files(data) or moved_stores(data)) and not is_forced:
            raise DataFolderUnusable(
                f"{data} holds stores; choose another folder with --data, or say --force to put"
                f" them aside, into a folder {_REPLACED}-… there"
            )
        restoring = data / _RESTORING
        shutil.rmtree(restoring, ignore_errors=True)
        restoring.mkdir(mode=_FOLDER_MODE)
        try:
            done = contents.size
            for store in contents.stores:
                _copy(folder, store, restoring, partial(_add, on_bytes, done))
                done += store.size
            write_list(restoring, contents)
        except BaseException:
            shutil.rmtree(restoring, ignore_errors=True)
            raise
        complete_restore(data)
    return contents


def complete_restore(data: Path) -> None:
    """Put files in their places that a restore had made ready, if there are any."""
    restoring = data / _RESTORING
    if not (restoring / LIST_FILE).exists():
        return
    contents = read_list(restoring)
    # The same name each time that it is tried.
    ready_at = datetime.fromtimestamp((restoring / LIST_FILE).stat().st_mtime, UTC)
    replaced = data / f"{_REPLACED}-{ready_at:%Y%m%dT%H%M%S.%f}"
    numbers = {*store_files(data), *moved_stores(data), *range(len(contents.stores))}
    for number in sorted(numbers):
        place = store_file(data, number)
        ready = restoring / place.name
        if number < len(contents.stores) and not ready.exists():
            continue  # it is in its place
        _put_aside(data, number, replaced)
        if ready.exists():
            ready.rename(place)
    sync_folder(data)
    shutil.rmtree(restoring)
    sync_folder(data)


def _put_aside(data: Path, number: int, replaced: Path) -> None:
    """Take away all that is of an old store, before a new one comes: its log above all."""
    old = store_file(data, number)
    files = [url_file(data, number)]
    files += [Path(f"{old}{moved}{companion}") for moved in ("", MOVED) for companion in COMPANIONS]
    for file in files:
        if file.exists():
            replaced.mkdir(mode=_FOLDER_MODE, exist_ok=True)
            file.rename(replaced / file.name)
    if replaced.exists():
        sync_folder(replaced)
    sync_folder(data)


def _add(on_bytes: OnBytes, before: int, count: int) -> None:
    on_bytes(before + count)


def _copy(folder: Path, store: CopiedStore, restoring: Path, on_bytes: OnBytes) -> None:
    target = os.open(restoring / store.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
    checksum, done = hashlib.sha256(), 0
    try:
        with (folder / store.file).open("rb") as source, os.fdopen(target, "wb") as copy:
            while piece := source.read(BYTES_TOGETHER):
                copy.write(piece)
                checksum.update(piece)
                done += len(piece)
                on_bytes(done)
            copy.flush()
            os.fsync(copy.fileno())
    except OSError as error:
        raise DataFolderUnusable(
            f"cannot restore {store.file} into {restoring.parent}: {error.strerror}; nothing of it"
            " was changed"
        ) from None
    if checksum.hexdigest() != store.sha256:
        raise damaged(folder / store.file)
