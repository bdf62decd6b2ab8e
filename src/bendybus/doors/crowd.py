"""How many clients each worker has, in memory that they share with the keeper of the doors."""

import mmap
from typing import Final

COUNTED_DOORS: Final = frozenset({"amqp", "amqps"})
"""Whose clients stay: by these a worker is full or not. Others take turns."""
_NUMBERS: Final = 3
_NUMBER_BYTES: Final = 8
_TAKEN, _OPEN, _BEATS = range(_NUMBERS)


class Crowd:
    """Numbers that one process writes each, and the keeper of the doors reads.

    Made before the workers are: they inherit the memory. Three numbers of each worker: how many
    connections it was given and took, how many are open, and one that moves while it is alive.
    """

    def __init__(self, workers: int) -> None:
        self._memory = mmap.mmap(-1, workers * _NUMBERS * _NUMBER_BYTES)
        self._numbers = memoryview(self._memory).cast("q")
        # The keeper's own: given out so far.
        self._given = [0] * workers
        self._turn = 0

    def seat(self, worker: int) -> "Seat":
        """Return what a worker writes."""
        return Seat(self._numbers, worker)

    def empty(self, worker: int) -> None:
        """Note that a worker is gone, and all of its clients."""
        first = _NUMBERS * worker
        for number in range(first, first + _NUMBERS):
            self._numbers[number] = 0
        self._given[worker] = 0

    def beats(self, worker: int) -> int:
        """Return a number that moves while the worker is alive."""
        return self._numbers[_NUMBERS * worker + _BEATS]

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
            first = _NUMBERS * worker
            taken, opened = self._numbers[first + _TAKEN], self._numbers[first + _OPEN]
            return self._given[worker] - taken + opened

        return sorted(self.in_turn(), key=load)


class Seat:
    """What one worker writes. Nobody else does."""

    def __init__(self, numbers: "memoryview[int]", worker: int) -> None:
        self._numbers = numbers
        self._first = _NUMBERS * worker

    def take(self) -> None:
        """Note that a connection was taken over: it is among the open ones by now, or gone."""
        self._numbers[self._first + _TAKEN] += 1

    def note_open(self, count: int) -> None:
        """Note how many connections are open."""
        self._numbers[self._first + _OPEN] = count

    def beat(self) -> None:
        """Show that the worker is alive."""
        self._numbers[self._first + _BEATS] += 1
