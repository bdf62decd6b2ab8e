"""A checksum behind every stored content, so that changed bytes are never delivered as good.

    +-----------------+-----------------+
    | content         | CRC-32, 4 bytes |
    +-----------------+-----------------+

The CRC-32 of bytes followed by their own CRC-32 (lowest byte first) is always the same number,
so checking needs neither a slice nor a comparison with a stored value.
"""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

CHECKSUM_SIZE: Final = 4
_RESIDUE: Final = 0x2144DF1C


def sealed(contents: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return each content with its checksum behind it."""
    return tuple([content + crc32(content).to_bytes(4, "little") for content in contents])


def is_intact(content_and_checksum: bytes) -> bool:
    """Say whether the bytes are those that were sealed."""
    return crc32(content_and_checksum) == _RESIDUE
