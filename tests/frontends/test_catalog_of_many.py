"""Entities, rules and keys that one front end changes are served by all (R7.1)."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bendybus.broker.access_rules import put_access_rule
from bendybus.broker.authenticate import Authentication
from bendybus.broker.create import create
from bendybus.broker.delete import delete
from bendybus.broker.rules import add_rule
from bendybus.broker.update import update
from bendybus.model.access import AccessRule, Right, make_sas
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.model.errors import EntityExists, EntityNotFound, ServerBusy
from bendybus.model.rule import Rule, SqlFilter
from bendybus.testing.clock import ManualClock
from tests.frontends.front_end import ORDERS, PARTS, FrontEnd, OpenStores, front_end, until

NEWS = Topic("news", subscriptions=(Subscription("all"),))


async def check_alike(*front_ends: FrontEnd) -> None:
    """Make sure that all front ends and all stores have the same catalog."""
    expected = dict(front_ends[0].namespaces.records.by_number)
    for each in front_ends:
        assert each.namespaces.records.by_number == expected
        assert {record.number: record for record in each.catalog.standing().values()} == {
            number: record for number, record in expected.items() if not record.is_removed
        }
        for store in each.stores:
            assert {record.number: record for record in await store.entities()} == expected
            assert await store.prepared() == []


@pytest.mark.spec("R7.1")
async def test_what_one_creates_the_other_finds_at_once(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        for name in ("a", "b", "c"):
            await create(one.catalog, Queue(name), now=clock.now())
            assert (await other.queue(name)).name == name
        await check_alike(one, other)
        with pytest.raises(EntityNotFound):
            await other.queue("d")


@pytest.mark.spec("R7.1")
async def test_what_one_changes_or_deletes_the_other_follows_by_itself(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [ORDERS, PARTS]) as one,
        front_end(open_stores, clock) as other,
    ):
        orders, parts = await other.queue("orders"), await other.queue("parts")
        changed = replace(ORDERS, properties=QueueProperties(max_delivery_count=3))
        await update(one.catalog, changed, now=clock.now())
        await until(lambda: orders.properties.max_delivery_count == 3)
        await delete(one.catalog, "parts")
        await until(lambda: parts.is_gone)

        # Who looks after the stores deletes it for good, and then nobody knows it any more.
        async def is_forgotten() -> bool:
            for each in (one, other):
                await each.removal.look()
            known = [len(each.namespaces.records.by_number) for each in (one, other)]
            return known == [1, 1]

        await until(is_forgotten)
        await check_alike(one, other)


async def test_what_lies_in_a_store_that_one_does_not_have_is_left_to_the_others(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(lambda: open_stores()[:1], clock) as one,
        front_end(open_stores, clock) as other,
    ):
        for entity in (PARTS, Queue("elsewhere"), Queue("here")):
            await create(other.catalog, entity, now=clock.now())
        assert (await one.queue("here")).name == "here"
        for name in ("parts", "elsewhere"):
            with pytest.raises(EntityNotFound):
                await one.queue(name)


@pytest.mark.spec("R7.1")
async def test_of_two_who_create_the_same_one_does(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        outcomes = await asyncio.gather(
            *(create(each.catalog, PARTS, now=clock.now()) for each in (one, other)),
            return_exceptions=True,
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == [
            EntityExists.__name__,
            "EntityRecord",
        ]


@pytest.mark.spec("R7.1")
async def test_changes_of_several_at_once_all_hold(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        await asyncio.gather(
            *(
                create(each.catalog, Queue(f"{mark}{number}"), now=clock.now())
                for number in range(5)
                for mark, each in (("a", one), ("b", other))
            )
        )
        await until(lambda: len(one.namespaces.records.by_number) == 10)
        await until(lambda: len(other.namespaces.records.by_number) == 10)
        await check_alike(one, other)


@pytest.mark.spec("R7.1")
async def test_front_ends_that_start_together_make_the_declared_entities_once(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with AsyncExitStack() as running:

        async def start() -> FrontEnd:
            served = front_end(open_stores, clock, [ORDERS, PARTS, NEWS])
            return await running.enter_async_context(served)

        front_ends = await asyncio.gather(start(), start(), start())
        await until(lambda: all(len(each.namespaces.records.by_number) == 4 for each in front_ends))
        await check_alike(*front_ends)


@pytest.mark.spec("R7.1")
async def test_who_was_paused_in_his_turn_changes_nothing_after_another_had_it(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [ORDERS]) as paused,
        front_end(open_stores, clock) as other,
    ):
        known = paused.catalog.record("orders")
        late = replace(known, version=known.version + 1, updated_at=clock.now())
        for store in paused.stores:
            await store.prepare([late])
        changed = replace(ORDERS, properties=QueueProperties(max_delivery_count=3))
        await update(other.catalog, changed, now=clock.now())
        for store in paused.stores:
            with pytest.raises(ServerBusy):
                await store.put_entities([late], is_prepared=True)
            with pytest.raises(ServerBusy):
                await store.prepare([late])
        await paused.namespaces.records.following.look()
        await check_alike(paused, other)


@pytest.mark.spec("R4")
async def test_a_rule_of_one_is_asked_by_the_other(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with (
        front_end(open_stores, clock, [NEWS]) as one,
        front_end(open_stores, clock) as other,
    ):
        there = other.catalog.subscription("news", "all")
        rule = Rule("red", SqlFilter("color = 'red'"))
        await add_rule(one.catalog, one.catalog.subscription("news", "all"), rule, now=clock.now())
        await until(lambda: [each.name for each in there.subscription.rules][-1:] == ["red"])


@pytest.mark.spec("R8")
async def test_a_key_that_one_makes_opens_the_other_at_once(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        wish = AccessRule("reader", None, frozenset({Right.LISTEN}))
        rule = await put_access_rule(one.catalog, None, wish, now=clock.now())
        ends_at = datetime.fromtimestamp(clock.now() / 1000 + 60, UTC)
        token = make_sas("sb://localhost/orders", rule.name, rule.keys[0], ends_at)
        doors = Authentication(other.catalog, clock)
        claims = await doors.claims(token, resource="orders", entity="orders", address="here")
        assert claims.allows(Right.LISTEN)
