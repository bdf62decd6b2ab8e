"""The folder of the embedded stores: what its files are called, and who works on it.

- `broker.lock`: held by the broker that runs on the folder, and says which that is
- `store-NN.db`: a store, with -wal and -shm beside it
- `store-NN.url`: where the store was moved to; it counts, whatever else is there
- `store-NN.db.moved`: what it was before that
- `cluster`: what all stores that were moved out of the folder say they belong to
- `restoring/`: stores of a backup that are being restored, see `restoring.py`
- `before-restore-…/`: what a restore replaced
"""

import fcntl
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from bendybus.model.errors import DataFolderInUse

LOCK_FILE: Final = "broker.lock"
CLUSTER_FILE: Final = "cluster"
MOVED: Final = ".moved"
# A file of SQLite, and what it may have beside it: where one goes, the others go first.
COMPANIONS: Final = ("-wal", "-shm", "")
_STORE_FILE: Final = re.compile(r"store-(\d{2,3})\.(db|url)")


def store_file(folder: Path, number: int) -> Path:
    """Return where a store is kept."""
    return folder / f"store-{number:02}.db"


def url_file(folder: Path, number: int) -> Path:
    """Return the file that says where a store was moved to."""
    return url_file_of(store_file(folder, number))


def url_file_of(store: Path) -> Path:
    """Return the file that says where the store that was in a file was moved to."""
    return store.with_suffix(".url")


def store_files(folder: Path) -> dict[int, Path]:
    """Return the stores that are in a folder, by number."""
    return _numbered(folder, "db")


def moved_stores(folder: Path) -> dict[int, Path]:
    """Return the files that say where stores of a folder were moved to, by number."""
    return _numbered(folder, "url")


def _numbered(folder: Path, suffix: str) -> dict[int, Path]:
    matches = ((path, _STORE_FILE.fullmatch(path.name)) for path in folder.iterdir())
    return {int(match[1]): path for path, match in matches if match and match[2] == suffix}


def cluster_of(folder: Path) -> str:
    """Return what stores of the folder say they belong to, wherever they are moved; made once."""
    file = folder / CLUSTER_FILE
    while True:
        try:
            return file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            unfinished = folder / f".{CLUSTER_FILE}.{os.getpid()}"
            unfinished.write_text(f"{uuid.uuid4().hex}\n", encoding="ascii")
            # The first one's stays: a link fails where one is, a rename would replace it.
            with suppress(FileExistsError):
                os.link(unfinished, file)
            unfinished.unlink()
            sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until what was created, renamed or removed in a folder is so on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_moved_away(folder: Path) -> None:
    """Rename the files of stores that were moved, where a crash came before it was done."""
    for number in moved_stores(folder):
        old = store_file(folder, number)
        for companion in COMPANIONS:
            file = Path(f"{old}{companion}")
            if file.exists():
                file.rename(f"{old}{MOVED}{companion}")
    sync_folder(folder)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the folder for this process and those it forks; the kernel lets go with the last."""
    file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataFolderInUse(
                f"another broker runs on the data folder {folder}; stop it, or choose another"
                " folder with --data"
            ) from None
        os.truncate(file, 0)
        os.pwrite(file, f"{os.getpid()} {time.time_ns()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def last_broker_on(folder: Path) -> bytes:
    """Return what tells the broker that last started on the folder from any other.

    Read, without a try to lock: that would be in the way of one that starts just now.
    """
    try:
        return (folder / LOCK_FILE).read_bytes()
    except FileNotFoundError:
        return b""
