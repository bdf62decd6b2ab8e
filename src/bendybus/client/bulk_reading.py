"""What is left to read, for who is cut off in the middle of a stream."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bendybus.client.bulk_values import Positions, Range


def ranges_left(ranges: Sequence[Range], reached: dict[str, Any]) -> list[Range]:
    """Return what comes behind the place that was reached; ranges are read in their order."""
    fragment, following = reached["fragment"], reached["next"]
    for at, each in enumerate(ranges):
        if each.fragment == fragment and each.first < following <= each.until:
            rest = replace(each, first=following)
            return [*([rest] if rest.first < rest.until else []), *ranges[at + 1 :]]
    raise AssertionError(f"the broker has read what nobody asked for: {reached}")


def positions_left(positions: Sequence[Positions], reached: dict[str, Any]) -> list[Positions]:
    """Return what comes behind the place that was reached.

    Sequence numbers rise within one position only, so the rest of that one stands alone.
    """
    fragment, position, following = reached["fragment"], reached["position"], reached["next"]
    for at, each in enumerate(positions):
        if each.fragment == fragment and each.after < position <= each.until:
            rest = Positions(fragment, position - 1, position, following)
            others = Positions(fragment, position, each.until)
            return [rest, *([others] if position < each.until else []), *positions[at + 1 :]]
    raise AssertionError(f"the broker has read what nobody asked for: {reached}")
