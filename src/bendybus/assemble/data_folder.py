"""One broker at a time on a folder of embedded stores."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bendybus.model.errors import DataFolderInUse

LOCK_FILE: Final = "broker.lock"


@contextmanager
def only_broker_on(folder: Path) -> Iterator[None]:
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
        yield
    finally:
        os.close(file)
