"""How many clients each worker has, in memory that they share with the keeper of the doors."""

import mmap
from typing import Final

COUNTED_DOORS: Final = frozenset({"amqp", "amqps"})
"""Whose clients stay: by these a worker is full or not. Others take turns."""
_SLOT_BYTES: Final = 8


class Crowd:
    """Numbers that one process writes each, and the keeper of the doors reads.

    Made before the workers are: they inherit the memory. Two numbers of each worker: how many
    connections it was given and took, and how many are open.
    """

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, workers * 2 * _SLOT_BYTES)
        self._numbers = memoryview(self._memory).cast("q")
        # The keeper's own: given out so far.
        self._given = [0] * workers
        self._turn = 0

    def seat(self, worker: int) -> "Seat":
        """Return what a worker writes."""
        return Seat(self._numbers, worker)

    def empty(self, worker: int) -> None:
        """Note that a worker is gone, and all of its clients."""
        self._numbers[2 * worker] = self._numbers[2 * worker + 1] = 0
        self._given[worker] = 0

    def give(self, worker: int, *, is_counted: bool) -> None:
        """Note that a worker was given a connection, perhaps one that it will count."""
        self._given[worker] += is_counted
        self._turn = worker + 1

    def in_turn(self) -> list[int]:
        """Return the workers, beginning with the one whose turn it is."""
        count = len(self._given)
        return [(self._turn + each) % count for each in range(count)]

    def by_room(self) -> list[int]:
        """Return the workers, who has the fewest first; of equals, whose turn it is."""

        def load(worker: int) -> int:
            taken, opened = self._numbers[2 * worker], self._numbers[2 * worker + 1]
            return self._given[worker] - taken + opened

        return sorted(self.in_turn(), key=load)


class Seat:
    """What one worker writes. Nobody else does."""

    def __init__(self, numbers: "memoryview[int]", worker: int) -> None:
        self._numbers = numbers
        self._taken = 2 * worker
        self._open = 2 * worker + 1

    def take(self) -> None:
        """Note that a connection was taken over."""
        self._numbers[self._taken] += 1

    def note_open(self, count: int) -> None:
        """Note how many connections are open."""
        self._numbers[self._open] = count
