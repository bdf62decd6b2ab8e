"""Where tests keep their files: in memory, if this machine has room there.

A sync of a disk takes milliseconds, and most tests wait for dozens that they say nothing about. A
process that is killed loses nothing of what lies in memory; only a machine does, and its power is
cut in `tests/store` by a disk made for that. `tests/kill` alone stays on the disk: there a kill
must be able to come while a commit waits for one.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - folders of our own are made in it
# A whole run has less than half of it at any time.
ROOM_BYTES_MIN: Final = 3 * 1024**3

# Where files would be otherwise: what the environment says, or the system's usual place.
DISK: Final = tempfile.gettempdir()


def roomy_folder() -> str:
    """Return where tests keep their files."""
    is_roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM_BYTES_MIN
    return str(MEMORY) if is_roomy else DISK
