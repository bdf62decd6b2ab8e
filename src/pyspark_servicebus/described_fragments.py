"""What an entity holds now, fragment by fragment, and where reading begins and ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bendybus.client.bulk_values import Description
from pyspark_servicebus.options import Edge
from pyspark_servicebus.planning import fragments_named


class FragmentsOffline(RuntimeError):
    """Stores of the entity do not answer; nothing was read."""


class FragmentUnknown(ValueError):
    """An offset names a fragment that the entity does not have."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a fragment goes whose store is online."""

    fragment: int
    first: int
    next: int
    messages: int
    bytes: int


def extents(described: Description) -> list[Extent]:
    """Return the fragments that can be read."""
    return [
        Extent(
            each.fragment,
            each.first_sequence,
            each.next_sequence,
            each.messages or 0,
            each.bytes or 0,
        )
        for each in described.fragments
        if each.is_online and each.first_sequence is not None and each.next_sequence is not None
    ]


def check_online(described: Description, resource: str, *, skips_offline: bool) -> list[int]:
    """Return the fragments that must be skipped. Raises `FragmentsOffline` unless told so."""
    online = {each.fragment for each in extents(described)}
    gone = [each for each in described.fragments if each.fragment not in online]
    if not gone:
        return []
    numbers = [each.fragment for each in gone]
    stores = ", ".join(str(store) for store in sorted({each.store for each in gone}))
    text = f"{fragments_named(numbers)} of '{resource}' (store {stores})"
    if not skips_offline:
        raise FragmentsOffline(
            f"{text} cannot be read: offline. Bring the store back, or read the rest with option"
            " skipOffline=true"
        )
    return numbers


def check_known(described: Description, *given: Edge | Mapping[int, int]) -> None:
    """Refuse numbers of fragments that there are not."""
    known = {each.fragment for each in described.fragments}
    named = {each for numbers in given if not isinstance(numbers, Edge) for each in numbers}
    if unknown := sorted(named - known):
        raise FragmentUnknown(
            f"there is no {fragments_named(unknown)}; the entity has {len(known)}, from 0 on"
        )


def edges(
    fragments: Sequence[Extent], edge: Edge | Mapping[int, int], *, otherwise: Edge
) -> dict[int, int]:
    """Return the sequence number of an edge in every fragment.

    Of numbers that a user gave, a fragment that is not named is at the `otherwise` edge.
    """
    given: Mapping[int, int] = {} if isinstance(edge, Edge) else edge
    plain = edge if isinstance(edge, Edge) else otherwise
    return {
        each.fragment: given.get(each.fragment, each.first if plain is Edge.EARLIEST else each.next)
        for each in fragments
    }
