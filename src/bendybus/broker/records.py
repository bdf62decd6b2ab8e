"""Every entity as it stands. Each store keeps a copy, and all of them change or none does (R7.1).

    prepare in every store ──► put in every store

To prepare is to try, and to write a note that it will be done: a store that cannot write is found
before any has changed. Until the first store has put it, a change has not happened; from then on it
is completed everywhere, by whoever is there to do it: at once, when a store that failed comes back,
or at the next start. Which of the two it is can be told when all stores are there; until then no
other change begins, and what was before holds.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from bendybus.broker.numbering import Numbering
from bendybus.model.entity import name_key
from bendybus.model.errors import BusError, StoreFailed, StoreUnavailable
from bendybus.model.ids import EntityNumber
from bendybus.store.port import EntityRecord, NumbersGiven, Store

T = TypeVar("T")
NEVER: Final = -1

_log = logging.getLogger(__name__)


class Serving(Protocol):
    """Serves what the records say."""

    def take_over(self, record: EntityRecord) -> None:
        """Serve an entity as it stands now, or, if it is removed, no longer."""
        ...


class Records:
    """The records of all entities of all namespaces, as the stores have them."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self.stores = stores
        # Who serves the entities of which namespace, by its name in small letters.
        self.served_by: dict[str, Serving] = {}
        self._by_number: dict[EntityNumber, EntityRecord] = {}
        # How often each store had been opened when it was last seen to have all records.
        self._agreed = [NEVER] * len(stores)
        # Kept while all stores are there: nobody else gives numbers. Those of a change that fails
        # are lost, which does no harm.
        self._numbering: Numbering | None = None
        self._turn = asyncio.Lock()
        self._changes: set[asyncio.Task[object]] = set()

    @property
    def by_number(self) -> Mapping[EntityNumber, EntityRecord]:
        """Every entity, also those that were removed and still hold messages."""
        return self._by_number

    async def in_turn(self, change: Callable[[], Awaitable[T]]) -> T:
        """Make a change after all others, when every store is there and has what the others have.

        It goes on to its end even if whoever waits for it gives up. Raises `StoreUnavailable` if a
        store is away.
        """

        async def make() -> T:
            async with self._turn:
                self.check_all_there()
                await self._agree()
                return await change()

        task = asyncio.create_task(make())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def agree(self) -> None:
        """Bring stores that came back, and what is served, to the state that holds."""
        if self.is_agreed:
            return
        async with self._turn:
            await self._agree()

    @property
    def is_agreed(self) -> bool:
        """Whether every store that is there has what the others have."""
        return all(
            agreed == store.openings
            for store, agreed in zip(self.stores, self._agreed, strict=True)
            if store.is_online
        )

    @property
    def is_whole(self) -> bool:
        """Whether every store is there, and has what the others have."""
        return self.is_agreed and all(store.is_online for store in self.stores)

    def check_all_there(self) -> None:
        """Refuse a change while a store is away."""
        for store in self.stores:
            if not store.is_online:
                status = store.status()
                raise StoreUnavailable(
                    status.number,
                    f"it is {status.state.value} ({status.reason})",
                )

    async def numbering(self) -> Numbering:
        """Return who gives new entities their numbers, as far as there are stores to ask."""
        if self._numbering is None:
            given = [
                await store.numbers_given() if store.is_online else NumbersGiven(0, 0)
                for store in self.stores
            ]
            numbering = Numbering(given)
            if not self.is_whole:
                return numbering
            self._numbering = numbering
        return self._numbering

    async def write(self, records: Sequence[EntityRecord]) -> None:
        """Write records to every store, in turn, and let them be served as they say.

        Durable on return, or nothing has changed. Only if every store fails at the very moment of
        the change is it unknown whether it was made (`StoreFailed`), until they are back.
        """
        prepared = await _all(store.prepare(records) for store in self.stores)
        for refusal in prepared:
            if refusal is not None:
                # Who cannot be told keeps a note, which counts for nothing without the others.
                await _all(store.prepare(()) for store in self.stores if store.is_online)
                raise refusal
        put = await _all(store.put_entities(records) for store in self.stores)
        for at, failure in enumerate(put):
            if failure is not None:
                self._agreed[at] = NEVER
                _log.warning("store %d is told of a change when it is back: %s", at, failure)
        failures = [failure for failure in put if failure is not None]
        if len(failures) == len(put):
            raise failures[0]
        for record in records:
            self._take_over(record)

    def forget(self, number: EntityNumber) -> None:
        """Forget an entity that is gone from every store."""
        del self._by_number[number]

    def retired(self) -> list[EntityRecord]:
        """Return the entities that were removed and hold messages still, subscriptions first."""
        return [
            record
            for _, record in sorted(self._by_number.items(), reverse=True)
            if record.is_removed
        ]

    async def _agree(self) -> None:
        """Complete what one store has put, and undo what none has."""
        if self.is_agreed:
            return
        openings = [store.openings for store in self.stores]
        held = await self._held()
        latest = await self._latest(held)
        # A topic has a lower number than its subscriptions: it was there before them.
        standing = [record for _, record in sorted(latest.items())]
        for at, versions in held.items():
            try:
                await self._bring_up(self.stores[at], versions, standing)
            except BusError as error:
                _log.warning("bringing store %d up to date was cut short: %s", at, error)
            else:
                self._agreed[at] = openings[at]
        self._numbering = None
        for record in standing:
            if self._by_number.get(record.number) != record:
                self._take_over(record)

    async def _held(self) -> dict[int, dict[EntityNumber, int]]:
        """Return which versions every store has that is there."""
        held: dict[int, dict[EntityNumber, int]] = {}
        for at, store in enumerate(self.stores):
            if store.is_online:
                with suppress(StoreUnavailable, StoreFailed):
                    held[at] = await store.versions()
        return held

    async def _latest(
        self, held: Mapping[int, Mapping[EntityNumber, int]]
    ) -> dict[EntityNumber, EntityRecord]:
        """Return the newest records, read from as few stores as have them all."""
        latest = dict(self._by_number)
        for at, versions in held.items():
            if all(
                number in latest and latest[number].version >= version
                for number, version in versions.items()
            ):
                continue
            for record in await self.stores[at].entities():
                known = latest.get(record.number)
                if known is None or known.version < record.version:
                    latest[record.number] = record
        return latest

    async def _bring_up(
        self, store: Store, versions: Mapping[EntityNumber, int], standing: Sequence[EntityRecord]
    ) -> None:
        """Let one store have what holds, and nothing prepared: who has put it has the record."""
        behind = [each for each in standing if versions.get(each.number) != each.version]
        if behind:
            await store.put_entities(behind)
        elif await store.prepared():
            await store.prepare(())

    def _take_over(self, record: EntityRecord) -> None:
        self._by_number[record.number] = record
        serving = self.served_by.get(name_key(record.namespace))
        if serving is not None:
            serving.take_over(record)


async def _all(calls: Iterable[Awaitable[None]]) -> list[BusError | None]:
    """Wait for all calls; return of each why it failed, if it did."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    failures: list[BusError | None] = []
    for answer in answers:
        if answer is not None and not isinstance(answer, BusError):
            raise answer
        failures.append(answer)
    return failures
