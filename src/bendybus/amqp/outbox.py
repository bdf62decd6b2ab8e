"""What the sessions of one connection share: the way out, and the limits of the peer."""

from __future__ import annotations

from typing import Final

from bendybus.amqp.deliveries import Assembly
from bendybus.amqp.frames import FRAME_SIZE_MIN_MAX

UNFINISHED_BYTES_MAX: Final = 64 * 1024 * 1024


class Outbox:
    """Bytes on their way out, joined once per `take`.

    Frames of sessions may be made before our Open is: peers pipeline, and so does our client. They
    wait in `frames` until `release` lets them follow the Open that stands in `prelude`.
    """

    __slots__ = (
        "frame_size_max",
        "frames",
        "is_released",
        "link_count",
        "peer_handle_count",
        "prelude",
        "unfinished_bytes",
        "unfinished_bytes_max",
    )

    def __init__(self) -> None:
        self.prelude: list[bytes] = []
        self.frames: list[bytes] = []
        """Appended to directly by links, and never replaced, so that its `append` can be kept."""
        self.is_released = False
        self.frame_size_max = FRAME_SIZE_MIN_MAX
        """Largest frame we may send: the minimum, until the peer's Open says more."""
        self.link_count = 0
        """Links that have a handle of ours."""
        self.peer_handle_count = 0
        """Links that have a handle of the peer's."""
        self.unfinished_bytes = 0
        """What is kept of deliveries of which more is to come, on all links."""
        self.unfinished_bytes_max = UNFINISHED_BYTES_MAX

    def keep(self, assembly: Assembly, part: bytes, size_max: int) -> bool:
        """Keep a part of a delivery; False if too much is kept of this one and others.

        One alone may be as large as its link allows.
        """
        before = len(assembly.payload)
        assembly.add(part, size_max)
        after = len(assembly.payload)
        self.unfinished_bytes += after - before
        return self.unfinished_bytes <= max(after, self.unfinished_bytes_max)

    def drop(self, assembly: Assembly | None) -> None:
        """No longer keep what there is of a delivery: it is whole, or never will be."""
        if assembly is not None:
            self.unfinished_bytes -= len(assembly.payload)

    def release(self) -> None:
        """Let frames follow what is in the prelude."""
        self.is_released = True

    def take(self) -> bytes:
        """Return and forget all that may go out now."""
        if not self.is_released:
            data = b"".join(self.prelude)
        elif self.prelude:
            data = b"".join(self.prelude + self.frames)
            self.frames.clear()
        else:
            data = b"".join(self.frames)
            self.frames.clear()
            return data
        self.prelude.clear()
        return data
