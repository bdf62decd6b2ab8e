"""A body in chunks (RFC 9112 §7.1), in its plainest form only.

    5 CR LF hello CR LF 0 CR LF CR LF

Extensions and trailers are refused: no client of a broker has a use for them, and they are where
readers have disagreed about the end of a body.
"""

import re
from typing import Final

from bendybus.http.request_head import RequestRefused

_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,8}\r\n")
# The longest line that can hold a size.
_SIZE_LINE_MAX: Final = 10
_LINE_END: Final = b"\r\n"


class ChunkedBody:
    """Takes a body out of what comes, chunk by chunk."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._body = bytearray()
        # What is missing of the chunk at hand with its line end; None: a size is next.
        self._missing: int | None = None
        self._is_last = False

    @property
    def is_too_large(self) -> bool:
        """Whether more was announced than may come."""
        return len(self._body) + (self._missing or 0) > self._bytes_max + len(_LINE_END)

    def take(self, buffer: bytearray) -> bytes | None:
        """Take what is there; return the body when it is whole. Raises `RequestRefused`.

        Check `is_too_large` after each turn that returned nothing.
        """
        while not self.is_too_large:
            if self._missing is None:
                if not self._take_size(buffer):
                    return None
            elif len(buffer) < self._missing:
                return None
            elif self._take_chunk(buffer, self._missing):
                return bytes(self._body)
        return None

    def _take_size(self, buffer: bytearray) -> bool:
        end = buffer.find(_LINE_END, 0, _SIZE_LINE_MAX)
        if end < 0:
            if len(buffer) >= _SIZE_LINE_MAX:
                raise _malformed()
            return False
        if not _SIZE.fullmatch(buffer, 0, end + 2):
            raise _malformed()
        size = int(buffer[:end], 16)
        del buffer[: end + 2]
        self._missing = size + 2
        self._is_last = size == 0
        return True

    def _take_chunk(self, buffer: bytearray, size: int) -> bool:
        """Take a whole chunk; returns whether it was the last."""
        if buffer[size - 2 : size] != _LINE_END:
            raise _malformed()
        self._body += buffer[: size - 2]
        del buffer[:size]
        self._missing = None
        return self._is_last


def _malformed() -> RequestRefused:
    return RequestRefused(400, "The chunks of the body are malformed.")
