"""Entities that go, with all that they hold."""
# ruff: noqa: D102 - the name of a test is its sentence

from dataclasses import replace

import pytest

from bendybus.model.errors import EntityNotFound
from bendybus.model.ids import EntityNumber, QueueNumber
from bendybus.store.port import FragmentPlace, NumbersGiven, Store
from bendybus.testing.store_contract.subject import (
    EVENTS,
    HERE,
    MAIN,
    ORDERS,
    PART,
    StoreMaker,
    StoreSubject,
    contents_of,
    promise,
    send,
)

RETIRED = replace(ORDERS, is_removed=True, version=2)


class RemovingContract(StoreSubject):
    """What `EntityStore` says of entities that were removed."""

    @promise(1)
    async def test_a_removed_entity_is_told_as_such_and_leaves_its_name(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await store.put_entities([RETIRED])
        again = replace(
            ORDERS, number=EntityNumber(7), places=(FragmentPlace(HERE, QueueNumber(20)),)
        )
        await store.put_entities([again])
        store = await make_store()
        assert await store.entities() == [RETIRED, EVENTS, again]

    @promise(4)
    async def test_it_goes_with_its_messages_in_bounded_turns(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        await send(store, b"kept", queue=PART)
        await store.put_entities([RETIRED])
        turns = 1
        while not await store.remove_entity(ORDERS.number, count_max=2):
            turns += 1
        assert turns == 3
        assert await store.entities() == [EVENTS]
        assert await contents_of(store, PART) == [b"kept"]
        with pytest.raises(EntityNotFound):
            await contents_of(store, MAIN)

    @promise(4)
    async def test_an_entity_that_is_gone_can_be_removed_again(self, store: Store) -> None:
        assert await store.remove_entity(ORDERS.number, count_max=1)
        assert await store.remove_entity(ORDERS.number, count_max=1)

    @promise(5)
    async def test_numbers_of_what_is_gone_are_remembered(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        given = NumbersGiven(entity=EVENTS.number, queue=PART + 3)
        assert await store.numbers_given() == given
        while not await store.remove_entity(EVENTS.number, count_max=100):
            continue
        assert await store.numbers_given() == given
        assert await (await make_store()).numbers_given() == given
