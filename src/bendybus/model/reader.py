"""Readers: names under which messages are reserved, and the rules for who may use one.

A reader keeps messages for itself, reservation by reservation, until it is done with them. Whoever
has its token may use it. Another gets it, with all that it has reserved, when it was not used for a
while; the one before is refused from then on.
"""

from collections.abc import Sequence
from typing import Final

from bendybus.model.errors import ArgumentInvalid

# Who was not heard of for so long has lost the reader to whoever asks next.
IDLE_AFTER_MS: Final = 60_000
# Of one entity.
READERS_MAX: Final = 100
NAME_LENGTH_MAX: Final = 128
TOKEN_LENGTH_MAX: Final = 64

# One reservation, unless one message alone is more: what makes or ends it keeps a store busy for
# some milliseconds, and others wait for no longer.
RESERVATION_COUNT_MAX: Final = 4000
RESERVATION_BYTES_MAX: Final = 4 * 1024 * 1024
# Fragments of which reservations are made or ended at once: the threads of all stores together
# would leave ordinary traffic no processor.
FRAGMENTS_AT_ONCE: Final = 4


def check_reader_name(name: str) -> None:
    """Refuse a name that no reader can have."""
    if not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise ArgumentInvalid(
            f"The name of a reader has 1 to {NAME_LENGTH_MAX} printable characters.",
            argument="reader",
        )


def check_reader_token(token: str) -> None:
    """Refuse a text that cannot be a token."""
    if not 0 < len(token) <= TOKEN_LENGTH_MAX or not token.isprintable():
        raise ArgumentInvalid(
            f"The token of a reader has 1 to {TOKEN_LENGTH_MAX} printable characters.",
            argument="token",
        )


def shares(total: int, count: int) -> Sequence[int]:
    """Divide a number into so many parts that are as equal as they can be, the larger first."""
    part, rest = divmod(total, count)
    return [part + 1] * rest + [part] * (count - rest)
