"""Which messages of a fragment are read in bulk: a client asks by these, the door reads by them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one fragment by sequence number, the last one excluded."""

    fragment: int
    first: int
    until: int


@dataclass(frozen=True, slots=True)
class Positions:
    """What a reader has reserved in one fragment: after a position, until another, included.

    Of these only messages from a sequence number on, for whoever was cut off.
    """

    fragment: int
    after: int
    until: int
    first: int = 0
