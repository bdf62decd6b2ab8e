"""Every entity as it stands. Each store keeps a copy, and all of them change or none does (R7.1).

    prepare in every store ──► put in every store

To prepare is to try, and to write a note that it will be done: a store that cannot write is found
before any has changed. Where messages are to go another way from then on, those that have arrived
by the old one are cleared away in between (`clear_arrived`). Until the first store has put it, a
change has not happened; from then on it is completed everywhere, by whoever is there to do it: at
once, when a store that failed comes back, or at the next start. Which of the two it is can be told
when all stores are there; until then no other change begins, and what was before holds.

Where stores are shared, other front ends change them too. They take turns, and whoever has the turn
first learns what the others did. The rest follow: a store says that something has changed by its
`generation`, and a hint says so at once. What is gone from every store was deleted by another.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeVar

from bendybus.broker.clear_arrived import Change, clear_arrived
from bendybus.broker.following import Following
from bendybus.broker.numbering import Numbering
from bendybus.model.entity import name_key
from bendybus.model.errors import BusError, StartRefused, StoreUnavailable
from bendybus.model.ids import EntityNumber
from bendybus.store.port import REMOVED, EntityRecord, NumbersGiven, Store
from bendybus.store.sharing import CATALOG

T = TypeVar("T")

_DISAGREEING: Final = "the stores cannot be brought to one state now: %s"

_log = logging.getLogger(__name__)


class StoreAge(NamedTuple):
    """While it is the same, nobody has changed a store's catalog and it was not away."""

    openings: int
    generation: int


NEVER: Final = StoreAge(-1, -1)


def age_of(store: Store) -> StoreAge:
    """Say how a store is, before it is read: what changes meanwhile is read again."""
    return StoreAge(store.openings, store.generation)


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
        # How old each store was when it was last seen to have all records.
        self._agreed = [NEVER] * len(stores)
        self.following = Following(stores)
        self.following.agreeing.append(self.agree)
        # Kept while all stores are there and nobody else gives numbers. Those of a change that
        # fails are lost, which does no harm.
        self._numbering: Numbering | None = None
        # Whether all that there was at the start is served.
        self.is_loaded = False
        self._turn = asyncio.Lock()
        self._changes: set[asyncio.Task[object]] = set()

    @property
    def is_shared(self) -> bool:
        """Whether other front ends may change something."""
        return any(store.is_shared for store in self.stores)

    @property
    def by_number(self) -> Mapping[EntityNumber, EntityRecord]:
        """Every entity, also those that were removed and still hold messages."""
        return self._by_number

    async def in_turn(self, change: Callable[[], Awaitable[T]], *, needs_all: bool = True) -> T:
        """Make a change after all others, when every store has what the others have.

        It goes on to its end even if whoever waits for it gives up. Raises `StoreUnavailable` if a
        store is away, unless the change can do without.
        """

        async def make() -> T:
            async with self._turn:
                if needs_all:
                    self.check_all_there()
                async with self._turns_of_stores():
                    await self._look()
                    await self._agree(has_turn=True)
                    try:
                        return await change()
                    finally:
                        await self._note_own_change()

        task = asyncio.create_task(make())
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def agree(self) -> None:
        """Bring stores that came back, and what is served, to the state that holds."""
        if self.is_agreed:
            return
        async with self._turn:
            try:
                if self.is_shared and await self._agree(has_turn=False):
                    return
                async with self._turns_of_stores():
                    await self._look()
                    await self._agree(has_turn=True)
            except BusError as error:
                _log.warning(_DISAGREEING, error)

    async def outlast_change(self) -> None:
        """Wait until the change that is under way is over, and serve what came of it.

        If whoever made it has ended, it is undone or completed here.
        """
        async with self._turn:
            try:
                async with self._turns_of_stores():
                    await asyncio.gather(*map(self._undo_prepared, self.stores))
                    await self._agree(has_turn=True)
            except BusError as error:
                _log.warning(_DISAGREEING, error)

    @asynccontextmanager
    async def _turns_of_stores(self) -> AsyncIterator[None]:
        """Be the only front end that changes any store. All take the turns in the same order."""
        async with AsyncExitStack() as turns:
            for store in self.stores:
                if store.is_shared and store.is_online:
                    await turns.enter_async_context(store.catalog_turn())
            yield

    async def _look(self) -> None:
        """Learn how old shared stores are now, as any call tells, and undo what others prepared.

        Whoever was in the turn before is not any more. If he was only paused, and goes on, he finds
        that what he prepared is gone, or that something else is: so of two who think that it is
        their turn one is refused by every store, before either has changed any.
        """
        if self.is_shared:
            self._numbering = None
            shared = [store for store in self.stores if store.is_shared]
            await asyncio.gather(*map(self._undo_prepared, shared))

    async def _undo_prepared(self, store: Store) -> None:
        """Let a store forget what it was told to prepare, unless another has, or may have, put it.

        Until the store has put it, too, the note must stay then: it keeps messages from arriving by
        a way that has ended (`clear_arrived`).
        """
        noted = await store.prepared() if store.is_online else []
        if noted and await self._has_nobody_put(noted):
            await store.prepare(())

    async def _has_nobody_put(self, noted: Sequence[EntityRecord]) -> bool:
        held = await self._held()
        return len(held) == len(self.stores) and all(
            versions.get(record.number, 0) < record.version
            for versions in held.values()
            for record in noted
        )

    async def _note_own_change(self) -> None:
        """In the turn nobody else has changed anything: what has changed need not be read again."""
        if self.is_shared and NEVER not in self._agreed:
            with suppress(BusError):
                await self._look()
                self._agreed = [
                    StoreAge(agreed.openings, store.generation)
                    for agreed, store in zip(self._agreed, self.stores, strict=True)
                ]
        for store in self.stores:
            if store.is_shared:
                store.tell([CATALOG])

    @property
    def is_agreed(self) -> bool:
        """Whether every store that is there has what the others have."""
        return all(
            agreed == age_of(store)
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
            given = await asyncio.gather(*map(_numbers_given, self.stores))
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
        refusal = next((each for each in prepared if each is not None), None)
        if refusal is None:
            refusal = await self._clear_arrived(records)
        if refusal is not None:
            # Who cannot be told keeps a note, which counts for nothing without the others.
            noted = [
                store
                for store, failure in zip(self.stores, prepared, strict=True)
                if failure is None and store.is_online
            ]
            await _all(store.prepare(()) for store in noted)
            raise refusal
        put = await _all(store.put_entities(records, is_prepared=True) for store in self.stores)
        for at, failure in enumerate(put):
            if failure is not None:
                self._agreed[at] = NEVER
                _log.warning("store %d is told of a change when it is back: %s", at, failure)
        failures = [failure for failure in put if failure is not None]
        if len(failures) == len(put):
            raise failures[0]
        for record in records:
            self._take_over(record)

    async def _clear_arrived(self, records: Sequence[EntityRecord]) -> BusError | None:
        """Let no message go two ways, as some are about to change; return why it cannot be."""
        known = self._by_number
        changes = [Change(known[each.number], each) for each in records if each.number in known]
        try:
            await clear_arrived(self.stores, changes)
        except BusError as error:
            return error
        return None

    def forget(self, number: EntityNumber) -> None:
        """Forget an entity that is gone from every store."""
        self._by_number.pop(number, None)

    def retired(self) -> list[EntityRecord]:
        """Return what was removed and holds messages still, subscriptions before their topic.

        Those of a namespace that was deleted are among them, and are there no longer than it.
        """
        return [
            record
            for _, record in sorted(self._by_number.items(), reverse=True)
            if record.is_removed or self.is_left_behind(record)
        ]

    def is_left_behind(self, record: EntityRecord) -> bool:
        """Whether the namespace of an entity was deleted.

        Its record was there before the entity's, so where all stores agree one that is not known
        is gone.
        """
        _, made, number = record.namespace.partition(REMOVED)
        if not made:
            return False
        namespace = self._by_number.get(EntityNumber(int(number)))
        return namespace is None or namespace.is_removed

    async def _agree(self, *, has_turn: bool) -> bool:
        """Complete what one store has put, and undo what none has.

        Without the turn nothing is written: False if that would be needed, as when somebody else is
        in the middle of a change. Then nothing is served in another way yet, either.
        """
        if self.is_agreed:
            return True
        ages = [age_of(store) for store in self.stores]
        held = await self._held()
        latest = await self._latest(held)
        # A topic has a lower number than its subscriptions: it was there before them.
        standing = [record for _, record in sorted(latest.items())]
        behind = {at: _behind(versions, standing) for at, versions in held.items()}
        if not has_turn and any(behind.values()):
            return False
        for at, records in behind.items():
            try:
                if has_turn:
                    await self._bring_up(self.stores[at], records)
            except BusError as error:
                _log.warning("bringing store %d up to date was cut short: %s", at, error)
            else:
                self._agreed[at] = ages[at]
        self._numbering = None
        for record in standing:
            if self._by_number.get(record.number) != record:
                self._take_over(record)
        if len(held) == len(self.stores):
            self._forget_vanished(latest)
        return True

    def _forget_vanished(self, latest: Mapping[EntityNumber, EntityRecord]) -> None:
        """Serve no longer what no store has any more: another front end has deleted it."""
        for number, record in sorted(self._by_number.items(), reverse=True):
            if number not in latest:
                if not record.is_removed:
                    self._take_over(replace(record, is_removed=True))
                self.forget(number)

    async def _held(self) -> dict[int, dict[EntityNumber, int]]:
        """Return which versions every store has that is there."""
        held: dict[int, dict[EntityNumber, int]] = {}
        for at, store in enumerate(self.stores):
            if store.is_online:
                with suppress(BusError):
                    held[at] = await store.versions()
        return held

    async def _latest(
        self, held: Mapping[int, Mapping[EntityNumber, int]]
    ) -> dict[EntityNumber, EntityRecord]:
        """Return the newest records, read from as few stores as have them all.

        What is known here and is in no shared store that is there is left out: it was deleted, or
        is in one that is away. Which it is can be told when all are there.
        """
        latest = dict(self._by_number)
        if self.is_shared:
            there = set[EntityNumber]().union(*held.values())
            latest = {number: each for number, each in latest.items() if number in there}
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

    async def _bring_up(self, store: Store, behind: Sequence[EntityRecord]) -> None:
        """Let one store have what holds, and nothing prepared that nobody has put."""
        if behind and store.is_shared:
            # What it was told to prepare others have put, or it would be undone by now.
            noted = await store.prepared()
            if noted:
                await store.put_entities(noted, is_prepared=True)
                behind = [each for each in behind if each not in noted]
        if behind and store.is_shared:
            # Who was paused in his turn until another had it finds what that one has prepared.
            await store.prepare(behind)
            await store.put_entities(behind, is_prepared=True)
        elif behind:
            await store.put_entities(behind)
        else:
            await self._undo_prepared(store)

    def _take_over(self, record: EntityRecord) -> None:
        self._by_number[record.number] = record
        serving = self.served_by.get(name_key(record.namespace))
        if serving is None:
            return
        try:
            serving.take_over(record)
        except StartRefused as error:
            if not self.is_loaded:
                raise
            # Another front end has more stores than this one, or fewer configured namespaces.
            _log.error("%s; until then it is not served here", error)


def _behind(
    versions: Mapping[EntityNumber, int], standing: Sequence[EntityRecord]
) -> list[EntityRecord]:
    """Return what a store is to be told; not of what was removed, and is gone there already."""
    return [
        each
        for each in standing
        if versions.get(each.number) != each.version
        and not (each.is_removed and each.number not in versions)
    ]


async def _numbers_given(store: Store) -> NumbersGiven:
    return await store.numbers_given() if store.is_online else NumbersGiven(0, 0)


async def _all(calls: Iterable[Awaitable[None]]) -> list[BusError | None]:
    """Wait for all calls; return of each why it failed, if it did."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    failures: list[BusError | None] = []
    for answer in answers:
        if answer is not None and not isinstance(answer, BusError):
            raise answer
        failures.append(answer)
    return failures
