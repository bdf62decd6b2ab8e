"""Namespaces that one front end creates, changes or deletes are served by all (R7.1)."""

from datetime import UTC, datetime, timedelta

import pytest

from bendybus.broker.authenticate import Authentication
from bendybus.broker.catalog import Catalog
from bendybus.broker.create import create
from bendybus.broker.create_namespace import create_namespace
from bendybus.broker.delete_namespace import delete_namespace
from bendybus.broker.hosts import Hosts
from bendybus.broker.update_namespace import update_namespace
from bendybus.model.access import Right, make_sas
from bendybus.model.entity import Queue
from bendybus.model.errors import AuthenticationFailed, EntityExists, EntityNotFound
from bendybus.model.tier import Tier, TierName
from bendybus.testing.clock import ManualClock
from tests.frontends.front_end import FrontEnd, OpenStores, front_end, until

STANDARD = Tier()


def hosts_of(served: FrontEnd) -> Hosts:
    return Hosts(served.namespaces, lambda catalog: Authentication(catalog, served.clock))


def token_of(catalog: Catalog, clock: ManualClock) -> str:
    [root] = catalog.access.rules
    assert root.primary_key is not None
    expires_at = datetime.fromtimestamp(clock.now() / 1000, UTC) + timedelta(minutes=5)
    return make_sas("sb://host/", root.name, root.primary_key, expires_at)


async def look(*front_ends: FrontEnd) -> None:
    for each in front_ends:
        await each.namespaces.records.following.look()


@pytest.mark.spec("R7.1")
async def test_a_key_that_is_not_known_leads_to_the_namespace_that_another_has_just_created(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        hosts = hosts_of(other)
        for task in other.running:
            # It hears no hint, and looks at nothing by itself.
            task.cancel()
        other.running.clear()
        made = await create_namespace(one.namespaces, "team-blue", STANDARD, now=clock.now())
        token = token_of(made, clock)
        before = hosts.of("team-blue.example")
        with pytest.raises(AuthenticationFailed):
            await before.authentication.claims(token, resource="", entity=None, address="")
        after = hosts.of("team-blue.example")
        assert (before, after.catalog.namespace) == (hosts.default, "team-blue")
        claims = await after.authentication.claims(token, resource="", entity=None, address="")
        assert claims.allows(Right.MANAGE)


@pytest.mark.spec("R7.1")
async def test_a_namespace_comes_changes_and_goes_for_every_front_end(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        made = await create_namespace(one.namespaces, "team-blue", STANDARD, now=clock.now())
        await until(lambda: other.namespaces.has("team-blue"))
        theirs = other.namespaces.named("team-blue")
        await until(lambda: theirs.access.rules == made.access.rules)
        await create(theirs, Queue("orders"), now=clock.now())
        await until(lambda: made.has("orders"))
        with pytest.raises(EntityExists):
            await create_namespace(other.namespaces, "Team-Blue", STANDARD, now=clock.now())

        basic = Tier(TierName.BASIC)
        await update_namespace(other.namespaces, "team-blue", lambda _: basic, now=clock.now())
        await until(lambda: made.tier == basic)

        orders = made.queue("orders")
        await delete_namespace(other.namespaces, "team-blue", with_entities=True)
        await until(lambda: not one.namespaces.has("team-blue"))
        assert orders.is_gone
        assert made.access.rules == ()
        with pytest.raises(EntityNotFound, match="was deleted"):
            await create(made, Queue("late"), now=clock.now())


@pytest.mark.spec("R7.1")
async def test_another_of_the_same_name_is_told_apart_by_who_slept_meanwhile(
    open_stores: OpenStores, clock: ManualClock
) -> None:
    async with front_end(open_stores, clock) as one, front_end(open_stores, clock) as other:
        await one.look_after()
        await create_namespace(one.namespaces, "team-blue", STANDARD, now=clock.now())
        await look(other)
        theirs = other.namespaces.named("team-blue")
        await create(theirs, Queue("orders"), now=clock.now())
        for task in other.running:
            task.cancel()
        other.running.clear()
        await delete_namespace(one.namespaces, "team-blue", with_entities=True)
        await one.removal.look()
        again = await create_namespace(one.namespaces, "team-blue", STANDARD, now=clock.now())
        await create(again, Queue("others"), now=clock.now())

        await look(other)
        found = other.namespaces.named("team-blue")
        assert theirs.is_gone
        assert found is not theirs
        assert [queue.name for queue in found.queues()] == ["others"]
        assert found.access.rules == again.access.rules
        for store in one.stores:
            assert [record.name for record in await store.entities()] == ["team-blue", "others"]
