"""Numbers and names that must not be mixed up, and the shape of a sequence number.

A sequence number has 64 bits. The top 16 are the fragment that holds the message, the lower 48
count within it from 1:

    63        48 47                                            0
    +-----------+-----------------------------------------------+
    | fragment  | counter                                       |
    +-----------+-----------------------------------------------+

so whatever is addressed by sequence number finds its fragment (R2.6), and a conventional entity,
whose only fragment is 0, counts 1, 2, 3.
"""

from enum import IntEnum
from typing import Final, NewType

# Milliseconds since 1970 in UTC. An integer, not a datetime: it is compared, stored and sent
# for every message (decisions/0003).
Instant = NewType("Instant", int)

EntityNumber = NewType("EntityNumber", int)
FragmentIndex = NewType("FragmentIndex", int)
StoreNumber = NewType("StoreNumber", int)

# The number a store gave to one sub-queue of one fragment that it holds.
QueueNumber = NewType("QueueNumber", int)

COUNTER_BITS: Final = 48
COUNTER_MASK: Final = (1 << COUNTER_BITS) - 1


class SubQueue(IntEnum):
    """Every queue and subscription has these four; the numbers are stored."""

    MAIN = 0
    DEAD_LETTER = 1
    TRANSFER_DEAD_LETTER = 2
    # What a transaction sent to other entities, until it has been taken there (R5.6). Not for
    # receivers.
    TRANSFER = 3


def sequence_number(fragment: int, counter: int) -> int:
    """Join a fragment and a place in it."""
    return fragment << COUNTER_BITS | counter


def fragment_of(sequence: int) -> FragmentIndex:
    """Return the fragment that a sequence number names."""
    return FragmentIndex(sequence >> COUNTER_BITS)
