"""Which task reads what. Pure.

A task costs Spark tens of milliseconds whatever it reads, so fragments are gathered into about as
many tasks as there are cores, and never into more than there are fragments.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of one fragment, and about how much there is to read in it."""

    fragment: int
    start: int
    end: int
    weight: int


def stretches(
    start: Mapping[int, int], end: Mapping[int, int], weights: Mapping[int, int]
) -> list[Stretch]:
    """Return what lies between two offsets, leaving out fragments with nothing new.

    A fragment that is absent from the start is read from its beginning.
    """
    found = []
    for fragment in sorted(end):
        low, high = start.get(fragment, 0), end[fragment]
        if low < high:
            found.append(Stretch(fragment, low, high, weights.get(fragment, high - low)))
    return found


def pack(parts: Iterable[Stretch], tasks_max: int) -> list[list[Stretch]]:
    """Share stretches out over tasks so that the largest share is small: largest first."""
    waiting = sorted(parts, key=lambda part: (-part.weight, part.fragment))
    tasks: list[list[Stretch]] = [[] for _ in range(min(tasks_max, len(waiting)))]
    loads = [0] * len(tasks)
    for part in waiting:
        least = loads.index(min(loads))
        tasks[least].append(part)
        # A fragment costs something even when it holds little.
        loads[least] += max(part.weight, 1)
    return [sorted(task, key=lambda part: part.fragment) for task in tasks]


def limited(start: Mapping[int, int], end: Mapping[int, int], messages_max: int) -> dict[int, int]:
    """Return an end that is at most so many sequence numbers away, fragments in proportion.

    Every fragment that has something new goes on by one at least, unless there are more of them
    than messages: then the first ones do.
    """
    backlog = {
        fragment: end[fragment] - start.get(fragment, 0)
        for fragment in sorted(end)
        if end[fragment] > start.get(fragment, 0)
    }
    total = sum(backlog.values())
    if total <= messages_max:
        return {fragment: max(end[fragment], start.get(fragment, 0)) for fragment in end}
    room = messages_max
    limit = {fragment: start.get(fragment, 0) for fragment in end}
    for fragment, waiting in backlog.items():
        share = min(room, max(1, waiting * messages_max // total))
        limit[fragment] += share
        room -= share
    return limit


def ended(heads: Mapping[int, int], end: Mapping[int, int] | None) -> dict[int, int]:
    """Return how far fragments go that end somewhere; one that is not named has no other end."""
    return {each: min(head, (end or {}).get(each, head)) for each, head in heads.items()}


def messages_within(messages_max: int, bytes_max: int, *, messages: int, size: int) -> int:
    """Return how many messages of average size are within both limits; one at least."""
    if not size:
        return messages_max
    return max(1, min(messages_max, bytes_max * messages // size))


def fragments_named(fragments: Sequence[int]) -> str:
    """Name fragments in a sentence."""
    word = "fragment" if len(fragments) == 1 else "fragments"
    return f"{word} {', '.join(str(fragment) for fragment in sorted(fragments))}"
