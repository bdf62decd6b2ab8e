"""A broker to which anything may happen: the ground on which every history stands.

The real verbs run on real stores, in virtual time, one step after another. Whatever the entities
and the model beside them, time passes, stores go away and come back, and the broker begins anew on
the same files.

Every history can be repeated, or it could not be shrunk. So nothing here may depend on which of
several stores answers first.
"""

import asyncio
import tempfile
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from bendybus.model.entity import Queue, Topic
from bendybus.model.tier import Tier
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, StartedStore, local_broker
from tests.history.grounds import Ground, files

T = TypeVar("T")

STEPS_MAX: Final = 100
VERB_SECONDS_MAX: Final = 30
POLL_SECONDS: Final = 0.005


def fewer_examples(part: int) -> settings:
    """Return settings for a part of the usual examples: each opens files and syncs them."""
    usual = settings()
    return settings(
        max_examples=usual.max_examples // part,
        stateful_step_count=min(usual.stateful_step_count, STEPS_MAX),
    )


class World(RuleBasedStateMachine):
    """The broker, its stores and its clock."""

    store_count: ClassVar[int]
    ground: ClassVar[Ground] = staticmethod(files)
    tier: ClassVar[Tier] = Tier()

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.loop = asyncio.new_event_loop()
        self.standing = ExitStack()
        folder = tempfile.TemporaryDirectory(prefix="bendybus-")
        self.folder = Path(self.standing.enter_context(folder))
        self.make_store = self.standing.enter_context(self.ground(self.store_count))
        self.running = AsyncExitStack()
        self.broker: LocalBroker
        self.run(self.open())
        self.run(self.looked_after())

    def entities(self) -> Sequence[Queue | Topic]:
        """Return what the broker is to serve."""
        raise NotImplementedError

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(self.within_time(work))

    async def within_time(self, work: Coroutine[Any, Any, T]) -> T:
        """Let a verb that does not come to its end be a failure like others."""
        try:
            async with asyncio.timeout(VERB_SECONDS_MAX):
                return await work
        except TimeoutError:
            raise AssertionError("it does not come to an end") from None

    async def open(self) -> None:
        self.broker = await self.running.enter_async_context(
            local_broker(
                self.folder,
                self.entities(),
                self.clock,
                stores=self.store_count,
                tier=self.tier,
                make_store=self.make_store,
            )
        )

    async def looked_after(self) -> None:
        """Wait until somebody looks after every store that is there.

        On servers that takes a moment, in which what is due is left to who may still do so.
        """
        while True:
            if all(map(is_looked_after, self.broker.stores)):
                return
            await asyncio.sleep(POLL_SECONDS)

    def teardown(self) -> None:
        self.run(self.running.aclose())
        self.loop.close()
        self.standing.close()

    @property
    def now(self) -> int:
        return self.clock.now()

    @property
    def are_all_online(self) -> bool:
        return all(store.is_online for store in self.broker.stores)

    # What happens to any broker

    @rule(seconds=st.sampled_from([1, 4, 5, 20]), is_swept=st.booleans())
    def wait(self, seconds: int, is_swept: bool) -> None:
        self.clock.advance(seconds)
        if is_swept:
            self.sweep()

    @rule()
    def sweep(self) -> None:
        self.run(self.broker.sweep.sweep_all())
        self.note_swept()

    @rule(number=st.integers(0, 2))
    def switch_a_store(self, number: int) -> None:
        """Take a store away, or bring back the one that is."""
        away = [store for store in self.broker.stores if not store.is_online]
        for store in away:
            self.run(store.bring_online())
        if not away:
            self.run(self.broker.stores[number % self.store_count].take_offline("a drill"))
        self.run(self.looked_after())
        self.note_switched()

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        """End and begin anew on the same files; unless cleanly, clients end without a word."""
        self.note_ending(is_clean=is_clean)
        self.run(self.running.aclose())
        self.run(self.open())
        self.run(self.looked_after())

    # What it means to the model

    def note_swept(self) -> None:
        """All that was due has been dealt with, where the store is online."""

    def note_switched(self) -> None:
        """A store has gone or come."""

    def note_ending(self, *, is_clean: bool) -> None:
        """The broker is about to end. Cleanly: clients take their leave first."""


def is_looked_after(store: StartedStore) -> bool:
    return store.is_caretaker or not store.is_online
