"""A broker that dies at any call to its stores, or whose store fails there."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from bendybus.model.errors import StoreFailed
from bendybus.model.operations import Operation
from bendybus.store.port import Acquire
from bendybus.testing.local_broker import StartedStore
from tests.history.grounds import MakeStore

Result = TypeVar("Result")
# Of one call: to take messages, or which operations.
Steps = frozenset[type]


class Ending(Enum):
    """What happens at the call at which the fuse blows."""

    BEFORE = "the broker dies before the call"
    AFTER = "the broker dies before it hears the answer"
    FAILED = "the store writes, and fails before it can say so"


class Fuse:
    """Counts the calls of all stores that change something, and ends everything at one of them."""

    def __init__(self) -> None:
        self.calls_left: int | None = None
        self.ending = Ending.BEFORE
        self.blown_at: StartedStore | None = None
        # What was asked for at the call that it ended at.
        self.steps: Steps = frozenset()

    def arm(self, calls: int, ending: Ending) -> None:
        """Count from now on."""
        self.calls_left, self.ending = calls, ending

    async def guard(
        self, store: StartedStore, call: "Callable[[], asyncio.Future[Result]]", steps: Steps
    ) -> Result:
        """Make a call, or end."""
        # Not to read, and to find nothing, is no step.
        if self.ending is Ending.BEFORE and Acquire not in steps:
            self._burn(store, steps)
        if self.is_dead:
            return await never()
        answer = await call()
        if self.ending is not Ending.BEFORE and answer and self._burn(store, steps):
            if self.ending is Ending.FAILED:
                await store.take_offline("it failed")
                raise StoreFailed(0, "it failed")
            return await never()
        return answer

    @property
    def is_dead(self) -> bool:
        """Whether the broker answers no more."""
        return self.blown_at is not None and self.ending is not Ending.FAILED

    def _burn(self, store: StartedStore, steps: Steps) -> bool:
        if self.calls_left is None or self.blown_at is not None:
            return False
        self.calls_left -= 1
        if self.calls_left == 0:
            self.blown_at, self.steps = store, steps
        return self.blown_at is not None


async def never() -> NoReturn:
    """Wait for an answer that nobody gives any more."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def fused(number: int, path: Path, *, make_store: MakeStore, fuse: Fuse) -> StartedStore:
    """Make a real store whose calls pass a fuse."""
    store = make_store(number, path)
    for name in ("apply", "acquire"):
        setattr(store, name, partial(_guarded, fuse, store, getattr(store, name)))
    return store


def _guarded(
    fuse: Fuse,
    store: StartedStore,
    call: "Callable[..., asyncio.Future[Any]]",
    asked: Acquire | Sequence[Operation],
    **kwargs: Any,
) -> "asyncio.Future[Any]":
    steps = [asked] if isinstance(asked, Acquire) else asked
    made = partial(call, asked, **kwargs)
    return asyncio.ensure_future(fuse.guard(store, made, frozenset(map(type, steps))))
