"""Keeps the files of a store to their owner: messages are in them, and the keys of access rules."""

import os
import stat
from pathlib import Path
from typing import Final

from bendybus.model.errors import DataFolderUnusable

_OWNER_ONLY: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def keep_private(path: Path) -> None:
    """Create the file, if need be, so that only its owner can read it; mend it if others can.

    SQLite gives its log the mode of the file. Raises `DataFolderUnusable` if the file belongs to
    somebody else; whether it can be opened is found out by opening it.
    """
    try:
        # Never one that is there: closing it would end the locks that this process has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY))
    except FileExistsError:
        pass
    except OSError:
        return
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        try:
            if each.stat().st_mode & _OTHERS:
                each.chmod(_OWNER_ONLY)
        except FileNotFoundError:
            continue
        except PermissionError:
            raise DataFolderUnusable(
                f"{each} can be read by others and belongs to somebody else: run the broker as its"
                " owner, or take it over"
            ) from None
