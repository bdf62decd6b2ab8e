"""Which store a database is: of which cluster, with which number, among how many.

Front ends find their stores by URLs alone, and a wrong one would mix the messages of two brokers or
leave fragments out. So each database says which store it is, and whoever opens it compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bendybus.model.errors import StoreMismatch


@dataclass(frozen=True, slots=True)
class StoreIdentity:
    """What a database is to a cluster. `count` is the most stores that the cluster ever had."""

    cluster: str
    number: int
    count: int
    namespaces: tuple[str, ...]
    # Whether an empty database may become it; one that was used before must not be empty.
    may_claim: bool = field(default=False, compare=False)
    # Of a database: whether a store is being copied there, and is elsewhere until that is done.
    is_copy: bool = False
    # Of who opens it: whether the place that the store has left sent it here. Then the copy is it.
    follows: bool = field(default=False, compare=False)

    def is_empty(self, shown: str) -> str:
        """Say that the database is empty, and must not be."""
        return (
            f"{shown} is empty, but store {self.number} was used before: its messages would be"
            " lost from sight; list the database that has them"
        )

    def taken_up(self, there: "StoreIdentity", shown: str) -> "StoreIdentity":
        """Return what the database is from now on, or raise `StoreMismatch` if it is another.

        `there` is what it says, `shown` its URL.
        """
        if there.cluster != self.cluster:
            raise StoreMismatch(
                f"{shown} belongs to another broker, of the namespaces"
                f" {', '.join(there.namespaces)}; give each broker databases of its own"
            )
        if there.is_copy and not self.follows:
            raise StoreMismatch(
                f"store {there.number} is being moved to {shown}, and is not complete there; list"
                " the database that it is in, and end the move with bendybus store move"
            )
        if there.number != self.number:
            raise StoreMismatch(
                f"{shown} is store {there.number}, but is listed as store {self.number}; list the"
                " stores in the order that they had"
            )
        names = sorted({*there.namespaces, *self.namespaces})
        return replace(self, count=max(there.count, self.count), namespaces=tuple(names))


def agree(
    found: Mapping[int, StoreIdentity | None],
    shown: Sequence[str],
    namespaces: Sequence[str],
    new_cluster: str,
) -> list[StoreIdentity]:
    """Say which stores these are to be, from what those say that can be reached.

    `found` has the reachable ones by their places in the list, None for an empty database. If all
    are empty they become those of `new_cluster`, which must be the same for all front ends that
    start at once. Raises `StoreMismatch`; nothing was written then.
    """
    named = {number: each for number, each in found.items() if each is not None}
    if not named and len(found) < len(shown):
        missing = ", ".join(each for number, each in enumerate(shown) if number not in found)
        raise StoreMismatch(
            f"these databases are new to the broker, and {missing} cannot be reached: all of them"
            " are needed at the first start"
        )
    first = next(iter(named.values()), None)
    cluster = new_cluster if first is None else first.cluster
    before = max((each.count for each in named.values()), default=0)
    theirs = {name for each in named.values() for name in each.namespaces}
    if theirs and not theirs & set(namespaces):
        raise StoreMismatch(
            f"the databases hold the namespaces {', '.join(sorted(theirs))}, and none of them is"
            f" served here ({', '.join(namespaces)}); give each broker databases of its own"
        )
    if len(shown) < before:
        raise StoreMismatch(
            f"there were {before} stores, and {len(shown)} are listed: the messages in stores"
            f" {len(shown)} to {before - 1} would be lost from sight; list all of them"
        )
    names = tuple(sorted({*theirs, *namespaces}))
    identities = [
        StoreIdentity(cluster, number, len(shown), names, may_claim=number >= before)
        for number in range(len(shown))
    ]
    for number, each in found.items():
        if each is not None:
            identities[number].taken_up(each, shown[number])
        elif not identities[number].may_claim:
            raise StoreMismatch(identities[number].is_empty(shown[number]))
    return identities
