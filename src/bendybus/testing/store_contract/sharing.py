"""What a store must do that several front ends share: as tests with two of them on the same data.

A subclass supplies one fixture, `join`; see `Joiner`.
"""
# ruff: noqa: D102 - the name of a test is its sentence

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pytest

from bendybus.model.entity import Subscription, Topic
from bendybus.model.errors import EntityNotFound, StoreUnavailable
from bendybus.model.ids import EntityNumber, QueueNumber
from bendybus.model.message import Message
from bendybus.model.operations import Publish, Remove, Taker
from bendybus.store.port import (
    UNTIL_REOPENED,
    AccessRecord,
    Acquire,
    EntityRecord,
    FragmentPlace,
    ParentTopic,
    SessionRefusal,
    Store,
)
from bendybus.store.sharing import Heard
from bendybus.testing.store_contract.duplicates import forget, send_ids
from bendybus.testing.store_contract.sessions import LEDGERS, accept, post
from bendybus.testing.store_contract.subject import (
    EVENTS,
    HERE,
    MAIN,
    NOON,
    ORDERS,
    PART,
    ROOMY,
    after,
    contents,
    contents_of,
    lock,
    locks,
    promise,
    send,
)

PATIENCE_SECONDS: Final = 20.0
ROUNDS: Final = 40
NEWS: Final = EntityRecord(
    EntityNumber(3), Topic("news"), 1, (FragmentPlace(HERE, QueueNumber(9)),)
)
READERS: Final = EntityRecord(
    EntityNumber(4),
    Subscription("readers"),
    1,
    (FragmentPlace(HERE, QueueNumber(13)),),
    ParentTopic(NEWS.number, "news"),
)


class Joiner(Protocol):
    """Starts front ends on the same data, and closes in the end those that are left."""

    async def __call__(self, heard: Heard | None = None) -> Store:
        """Start one more; it listens, if it is said who hears."""
        ...

    async def leave(self, store: Store) -> None:
        """Close one."""
        ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Two front ends, the first of which looks after the store, and what each has heard."""

    first: Store
    second: Store
    first_heard: list[Sequence[QueueNumber]]
    second_heard: list[Sequence[QueueNumber]]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens by itself."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - nobody tells when it has happened
            await asyncio.sleep(0.002)


class SharingContract:
    """Promise 15, and `bendybus.store.sharing`."""

    @pytest.fixture
    def join(self) -> Joiner:
        """Supply front ends on the store to be proved."""
        raise NotImplementedError

    @pytest.fixture
    async def pair(self, join: Joiner) -> Pair:
        """Return two front ends, and entities that the first has put."""
        first_heard: list[Sequence[QueueNumber]] = []
        second_heard: list[Sequence[QueueNumber]] = []
        first = await join(first_heard.append)
        await until(lambda: first.is_caretaker)
        second = await join(second_heard.append)
        await first.put_entities([ORDERS])
        await first.put_entities([EVENTS])
        return Pair(first, second, first_heard, second_heard)

    @promise(15)
    async def test_what_one_writes_the_other_has(self, pair: Pair) -> None:
        assert await send(pair.first, b"a") == [1]
        assert await send(pair.second, b"b") == [2]
        assert await contents_of(pair.first) == [b"a", b"b"]
        assert await contents_of(pair.second) == [b"a", b"b"]

    @promise(15)
    @pytest.mark.spec("R1.2")
    async def test_a_message_that_one_has_locked_the_other_does_not_get(self, pair: Pair) -> None:
        await send(pair.first, b"a", b"b")
        [held] = await lock(pair.first, 1)
        assert contents(await lock(pair.second, nonce=2)) == [b"b"]
        assert await pair.second.apply([Remove(MAIN, [held.lock])], now=NOON) == [[]]
        assert await pair.first.apply([Remove(MAIN, [held.lock])], now=NOON) == [[held.sequence]]

    @promise(15)
    async def test_numbers_are_given_once_by_both_together(self, pair: Pair) -> None:
        stores = [pair.first, pair.second] * ROUNDS
        given = await asyncio.gather(*[send(store, b"a", b"b") for store in stores])
        numbers = [number for each in given for number in each]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))

    @promise(15)
    async def test_every_free_message_is_found_and_locked_once(self, pair: Pair) -> None:
        await send(pair.first, *[b"%d" % at for at in range(4 * ROUNDS)])
        found = await asyncio.gather(
            *[lock(pair.first, 2, nonce=at) for at in range(ROUNDS)],
            *[lock(pair.second, 2, nonce=ROUNDS + at) for at in range(ROUNDS)],
        )
        assert [len(each) for each in found] == [2] * 2 * ROUNDS
        assert len({message.sequence for each in found for message in each}) == 4 * ROUNDS

    @promise(15)
    async def test_an_entity_that_one_puts_the_other_serves_at_once(self, pair: Pair) -> None:
        assert await send(pair.second, b"a", queue=PART)
        await pair.second.put_entities([LEDGERS])
        await post(pair.first, "s", b"b")
        assert await accept(pair.second, "s") == "s"
        assert await accept(pair.first, "s", nonce=2) is SessionRefusal.IS_LOCKED

    @promise(15)
    async def test_an_entity_that_one_removed_the_other_serves_no_more(self, pair: Pair) -> None:
        await send(pair.second, b"a")
        await pair.first.put_entities([replace(ORDERS, is_removed=True, version=2)])
        while not await pair.first.remove_entity(ORDERS.number, count_max=10):
            pass
        with pytest.raises(EntityNotFound):
            await send(pair.second, b"b")
        assert await pair.second.entities() == [EVENTS]

    @promise(15)
    async def test_who_does_nothing_learns_that_the_catalog_has_changed(self, pair: Pair) -> None:
        await pair.second.versions()
        ours, theirs = pair.first.generation, pair.second.generation
        await pair.first.put_entities([LEDGERS])
        assert pair.first.generation > ours
        await until(lambda: pair.second.generation > theirs)
        assert LEDGERS.number in await pair.second.versions()

    @promise(15)
    async def test_who_does_nothing_learns_that_access_rules_have_changed(self, pair: Pair) -> None:
        await pair.second.access()
        ours, theirs = pair.first.generation, pair.second.generation
        record = AccessRecord("ours", 1, ())
        await pair.first.put_access(record)
        assert pair.first.generation > ours
        await until(lambda: pair.second.generation > theirs)
        assert await pair.second.access() == [record]

    @promise(15)
    async def test_traffic_is_no_change_of_the_catalog(self, pair: Pair) -> None:
        await pair.second.versions()
        before = pair.second.generation
        await send(pair.first, b"a")
        await lock(pair.second)
        assert pair.second.generation == before

    @promise(15)
    async def test_a_duplicate_is_known_whichever_has_seen_it(self, pair: Pair) -> None:
        assert await send_ids(pair.first, "a", "b")
        assert not await send_ids(pair.second, "a", "b")
        assert await send_ids(pair.second, "b", "c")
        assert not await send_ids(pair.first, "c")
        assert await contents_of(pair.first) == [b"a", b"b", b"c"]

    @promise(15)
    async def test_a_forgotten_id_is_new_to_both(self, pair: Pair) -> None:
        await send_ids(pair.first, "a", "b")
        await send_ids(pair.second, "c")
        assert await forget(pair.first, NOON) == 0
        late = after(1)
        assert await send_ids(pair.first, "d", now=late)
        assert await send_ids(pair.second, "a", "d", now=late)
        assert not await send_ids(pair.first, "a", now=late)
        assert await contents_of(pair.second) == [b"a", b"b", b"c", b"d", b"a"]

    @promise(15)
    async def test_what_came_together_through_one_the_other_receives(self, pair: Pair) -> None:
        await pair.first.put_entities([NEWS, READERS])
        topic, readers = NEWS.places[0].first_queue, READERS.places[0].first_queue
        assert await lock(pair.second, queue=readers) == []
        for store in (pair.first, pair.second):
            messages = [Message(b"%d" % at) for at in range(8)]
            takers = [Taker(readers, range(8), [None] * 8)]
            await store.apply([Publish(topic, messages, takers, (), ROOMY)], now=NOON)
        for at, store in enumerate((pair.second, pair.first)):
            held = await lock(store, 8, queue=readers, nonce=at)
            assert contents(held) == [b"%d" % at for at in range(8)]
            assert await store.apply([Remove(readers, locks(held))], now=NOON) == [[]]

    @promise(15)
    async def test_counts_are_those_of_now(self, pair: Pair) -> None:
        await send(pair.first, b"a")
        assert (await pair.second.tallies([MAIN]))[MAIN].active == 1
        await send(pair.first, b"b")
        assert (await pair.second.tallies([MAIN]))[MAIN].active == 2

    @promise(15)
    async def test_one_of_all_looks_after_the_store_until_it_closes(
        self, pair: Pair, join: Joiner
    ) -> None:
        third = await join()
        assert [each.is_caretaker for each in (pair.first, pair.second, third)] == [
            True,
            False,
            False,
        ]
        openings = pair.second.openings + third.openings
        await join.leave(pair.first)
        assert not pair.first.is_caretaker
        await until(lambda: pair.second.is_caretaker or third.is_caretaker)
        assert pair.second.is_caretaker != third.is_caretaker
        await until(lambda: pair.second.openings + third.openings == openings + 1)

    @promise(15)
    async def test_what_the_one_before_held_is_free_when_another_looks_after_it(
        self, pair: Pair, join: Joiner
    ) -> None:
        await send(pair.first, b"a")
        await pair.first.acquire(Acquire(MAIN, 1, ROOMY, UNTIL_REOPENED, nonce=4), now=NOON)
        assert await lock(pair.second) == []
        await join.leave(pair.first)
        await until(lambda: pair.second.is_caretaker)
        assert contents(await lock(pair.second)) == [b"a"]

    @promise(15)
    async def test_a_store_that_is_offline_for_one_is_looked_after_by_another(
        self, pair: Pair
    ) -> None:
        await pair.first.take_offline("a drill")
        assert not pair.first.is_caretaker
        await until(lambda: pair.second.is_caretaker)
        assert await send(pair.second, b"a") == [1]
        await pair.first.bring_online()
        assert not pair.first.is_caretaker
        assert await contents_of(pair.first) == [b"a"]

    @promise(15)
    async def test_who_listens_hears_what_others_tell_and_not_itself(self, pair: Pair) -> None:
        pair.first.tell([MAIN])
        pair.first.tell([PART, MAIN])
        await until(lambda: {MAIN, PART} <= {each for heard in pair.second_heard for each in heard})
        pair.second.tell([])
        await until(lambda: [] in [list(each) for each in pair.first_heard])
        assert not any(MAIN in heard for heard in pair.first_heard)

    @promise(15)
    async def test_changes_of_the_catalog_take_turns(self, pair: Pair) -> None:
        order: list[str] = []

        async def change() -> None:
            async with pair.second.catalog_turn():
                order.append("second")

        async with pair.first.catalog_turn():
            changing = asyncio.create_task(change())
            await send(pair.second, b"traffic goes on")
            order.append("first")
        await changing
        assert order == ["first", "second"]

    @promise(15)
    async def test_there_is_no_turn_at_a_store_that_is_offline(self, pair: Pair) -> None:
        await pair.first.take_offline("a drill")
        with pytest.raises(StoreUnavailable):
            async with pair.first.catalog_turn():
                pass
        async with pair.second.catalog_turn():
            pass

    @promise(15)
    async def test_uses_are_those_of_all(self, pair: Pair) -> None:
        await pair.first.note_uses([ORDERS.number], now=NOON)
        await pair.second.note_uses([EVENTS.number], now=after(1))
        assert await pair.first.uses() == {ORDERS.number: NOON, EVENTS.number: after(1)}
