"""What a backup consists of: a file for each store, and a list of them with their checksums.

The list is written last. A folder without one is a backup that was cut off.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bendybus.model.errors import BackupUnusable
from bendybus.store.sqlite.data_folder import sync_folder

LIST_FILE: Final = "backup.json"
# Raised when a release could not restore what another wrote.
FORMAT: Final = 1
BYTES_TOGETHER: Final = 1 << 20
_PRIVATE: Final = 0o600
_LIST_BYTES_MAX: Final = 1 << 20
_CHECKSUM: Final = re.compile(r"[0-9a-f]{64}")
_FILE_NAME: Final = re.compile(r"store-(\d{2,3})\.db")

# Told how many bytes are done, now and then.
OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class CopiedStore:
    """The copy of one store."""

    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupContents:
    """All of a backup, store 0 first."""

    release: str
    made_at: str
    stores: tuple[CopiedStore, ...]

    @property
    def size(self) -> int:
        """How many bytes all stores have together."""
        return sum(store.size for store in self.stores)


def write_list(folder: Path, contents: BackupContents) -> None:
    """Complete a backup."""
    text = json.dumps({"format": FORMAT, **asdict(contents)}, indent=2)
    unfinished = folder / f".{LIST_FILE}"
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)
    sync_folder(folder)
    unfinished.rename(folder / LIST_FILE)
    sync_folder(folder)


def read_list(folder: Path) -> BackupContents:
    """Read what a backup consists of. Raises `BackupUnusable`, saying what is wrong."""
    path = folder / LIST_FILE
    try:
        with path.open("rb") as file:
            text = file.read(_LIST_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise BackupUnusable(
            f"{folder} holds no backup, or one that was cut off: it has no {LIST_FILE}"
        ) from None
    except OSError as error:
        raise BackupUnusable(f"cannot read {path}: {error.strerror}") from None
    try:
        read = json.loads(text)
        known = read["format"] == FORMAT
        contents = _contents(read) if known else None
    except (ValueError, TypeError, KeyError):
        raise BackupUnusable(f"{path} is damaged; take another backup") from None
    if contents is None:
        raise BackupUnusable(f"{path} was written by another release; restore it with that one")
    return contents


def _contents(read: dict[str, Any]) -> BackupContents:
    stores = tuple(
        CopiedStore(each["file"], int(each["size"]), each["sha256"]) for each in read["stores"]
    )
    for number, store in enumerate(stores):
        match = _FILE_NAME.fullmatch(store.file)
        if match is None or int(match[1]) != number or not _CHECKSUM.fullmatch(store.sha256):
            raise ValueError(store.file)
    if not stores:
        raise ValueError("no stores")
    return BackupContents(str(read["release"]), str(read["made_at"]), stores)


def check_files(folder: Path, contents: BackupContents, on_bytes: OnBytes) -> None:
    """Read every file and compare it with the list. Raises `BackupUnusable`, naming the file."""
    done = 0
    for store in contents.stores:
        path = folder / store.file
        try:
            size, checksum = path.stat().st_size, ""
            if size == store.size:
                checksum = checksum_of(path, partial(_beyond, on_bytes, done))
        except OSError as error:
            raise BackupUnusable(
                f"cannot read {path}: {error.strerror}; take another backup"
            ) from None
        if checksum != store.sha256:
            raise damaged(path)
        done += store.size


def _beyond(on_bytes: OnBytes, before: int, count: int) -> None:
    on_bytes(before + count)


def damaged(path: Path) -> BackupUnusable:
    """Say that a file is not what was written."""
    return BackupUnusable(f"{path} is damaged: it is not as it was written; take another backup")


def checksum_of(path: Path, on_bytes: OnBytes) -> str:
    """Return the SHA-256 of a file, as `sha256sum` prints it."""
    checksum, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(BYTES_TOGETHER):
            checksum.update(piece)
            done += len(piece)
            on_bytes(done)
    return checksum.hexdigest()
