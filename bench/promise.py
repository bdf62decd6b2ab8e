"""A promise: something measured, and the threshold that it is held against."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.readings import Readings

Measured = Callable[[Readings], float | None]


@dataclass(frozen=True, slots=True)
class Promise:
    """A value that must be at least, or at most, its threshold."""

    name: str
    scenario: str
    measured: Measured
    at_least: float | None = None
    at_most: float | None = None

    def limit(self) -> str:
        """The threshold as a reader wants it."""
        return f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"

    def is_kept(self, value: float) -> bool:
        """Whether a measured value honours the promise."""
        if self.at_least is not None and value < self.at_least:
            return False
        return self.at_most is None or value <= self.at_most


def ratio(above: float | None, below: float | None) -> float | None:
    """One over the other, if both were measured."""
    return None if above is None or below is None else above / below
