"""A checksum behind every stored content, so that changed bytes are never delivered as good.

    +-----------------+-----------------+
    | content         | CRC-32, 4 bytes |
    +-----------------+-----------------+

The checksum starts from a *seed*: a number made of where the content is kept and what the sender
said beside it. So a content that stands in the wrong row, or whose fields changed, fails as well.

The CRC-32 of bytes followed by their own CRC-32 (lowest byte first) is always the same number,
whatever the seed, so checking needs neither a slice nor a comparison with a stored value.
"""

from collections.abc import Iterable
from typing import Final

from zlib_ng.zlib_ng import crc32

CHECKSUM_SIZE: Final = 4
RESIDUE: Final = 0x2144DF1C


def sealed(contents: Iterable[bytes], seeds: Iterable[int]) -> tuple[bytes, ...]:
    """Return each content with its checksum behind it."""
    return tuple(
        [
            content + crc32(content, seed).to_bytes(4, "little")
            for content, seed in zip(contents, seeds, strict=True)
        ]
    )


def is_intact(content_and_checksum: bytes, seed: int) -> bool:
    """Say whether the bytes are those that were sealed with this seed."""
    return crc32(content_and_checksum, seed) == RESIDUE


def seed_with_fields(seed: int, *fields: object) -> int:
    """Let a checksum cover more fields: numbers, texts and None, each told from the others."""
    return crc32(encoded_fields(*fields), seed)


def encoded_fields(*fields: object) -> bytes:
    """Return the bytes by which fields are covered."""
    return repr(fields).encode("utf-8", "surrogatepass")
