"""Namespaces that are created, changed and deleted while the broker runs (R7.1)."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from bendybus.broker.access_rules import put_access_rule
from bendybus.broker.create import create
from bendybus.broker.create_namespace import NAMESPACES_MAX, create_namespace
from bendybus.broker.delete_namespace import delete_namespace
from bendybus.broker.removal import Removal
from bendybus.broker.update_namespace import update_namespace
from bendybus.model.access import AccessRule, Right
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.model.errors import (
    ArgumentInvalid,
    EntityExists,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
    StartRefused,
    StoreUnavailable,
)
from bendybus.model.ids import SubQueue
from bendybus.model.tier import PremiumPartitioning, Tier, TierName
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import LocalBroker, local_broker
from tests.unit.broker.serving_verbs import receive_all, send_each

STANDARD = Tier()
PARTS = Queue("parts", QueueProperties(enable_partitioning=True))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def _given(tier: Tier, before: Tier) -> Tier:
    del before
    return tier


def broker_on(
    folder: Path, clock: ManualClock, names: Sequence[str] = ("first",)
) -> AbstractAsyncContextManager[LocalBroker]:
    return local_broker(folder, [], clock, stores=2, names=names)


@pytest.mark.spec("R7.1")
async def test_a_created_namespace_is_there_after_a_restart_with_its_key_and_entities(
    folder: Path, clock: ManualClock
) -> None:
    premium = Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, 2)
    async with broker_on(folder, clock) as broker:
        made = await create_namespace(broker.namespaces, "Team-Blue", premium, now=clock.now())
        await create(made, Queue("orders"), now=clock.now())
        await create(made, Topic("news"), now=clock.now())
        await create(made, Subscription("audit"), topic="news", now=clock.now())
        await send_each(made.queue("orders"), clock, 3)
        [root] = made.access.rules
        assert root.name == "RootManageSharedAccessKey"
        assert root.rights == frozenset(Right)
        assert len({*root.keys}) == 2

    async with broker_on(folder, clock) as broker:
        made = broker.namespaces.named("team-BLUE")
        assert (made.namespace, made.tier) == ("Team-Blue", premium)
        assert made.access.rules == (root,)
        assert made.queue("orders").properties.fragment_count == 2
        assert len(await receive_all(made.queue("orders"), clock)) == 3
        assert made.has("news/subscriptions/audit")
        assert not broker.catalog.has("orders")
        assert broker.namespaces.configured == [broker.catalog]


async def test_namespaces_have_keys_and_queues_of_their_own(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        blue, green = [
            await create_namespace(broker.namespaces, name, STANDARD, now=clock.now())
            for name in ("team-blue", "team-green")
        ]
        assert not {*blue.access.rules[0].keys} & {*green.access.rules[0].keys}
        for catalog in (blue, green):
            await create(catalog, PARTS, now=clock.now())
        await send_each(blue.queue("parts"), clock, 5)
        assert await receive_all(green.queue("parts"), clock) == []
        assert len(await receive_all(blue.queue("parts"), clock)) == 5


@pytest.mark.parametrize(
    "name",
    [
        "blue",
        "x" * 51,
        "1st-team",
        "-team-blue",
        "team-blue-",
        "team_blue",
        "team.blue",
        "täm-blue",
    ],
)
async def test_a_name_that_the_service_would_not_take_is_refused(
    folder: Path, clock: ManualClock, name: str
) -> None:
    async with broker_on(folder, clock) as broker:
        with pytest.raises(ArgumentInvalid, match="6 to 50 letters, digits and hyphens"):
            await create_namespace(broker.namespaces, name, STANDARD, now=clock.now())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("team-sb", "-sb or -mgmt"),
        ("team-MGMT", "-sb or -mgmt"),
        ("LocalHost", "default namespace"),
    ],
)
async def test_a_name_that_means_something_else_is_refused(
    folder: Path, clock: ManualClock, name: str, text: str
) -> None:
    async with broker_on(folder, clock) as broker:
        with pytest.raises(ArgumentInvalid, match=text):
            await create_namespace(broker.namespaces, name, STANDARD, now=clock.now())


@pytest.mark.parametrize("name", ["FIRST-ONE", "second-one", "Team-Blue"])
async def test_a_name_that_is_taken_is_refused(folder: Path, clock: ManualClock, name: str) -> None:
    async with broker_on(folder, clock, ["first-one", "second-one"]) as broker:
        await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
        with pytest.raises(EntityExists, match=f"'{name}' already exists"):
            await create_namespace(broker.namespaces, name, STANDARD, now=clock.now())


async def test_there_are_no_more_than_so_many(folder: Path, clock: ManualClock) -> None:
    async with broker_on(folder, clock) as broker:
        for number in range(NAMESPACES_MAX):
            await create_namespace(broker.namespaces, f"team-{number}", STANDARD, now=clock.now())
        with pytest.raises(QuotaExceeded, match=f"at most {NAMESPACES_MAX} namespaces"):
            await create_namespace(broker.namespaces, "one-too-many", STANDARD, now=clock.now())
        assert not broker.namespaces.has("one-too-many")


@pytest.mark.spec("R7.1")
async def test_nothing_is_made_changed_or_deleted_while_a_store_is_away(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        namespaces = broker.namespaces
        await create_namespace(namespaces, "team-blue", STANDARD, now=clock.now())
        await broker.stores[1].take_offline("drill")
        with pytest.raises(StoreUnavailable):
            await create_namespace(namespaces, "team-green", STANDARD, now=clock.now())
        basic = Tier(TierName.BASIC)
        with pytest.raises(StoreUnavailable):
            await update_namespace(namespaces, "team-blue", lambda _: basic, now=clock.now())
        with pytest.raises(StoreUnavailable):
            await delete_namespace(namespaces, "team-blue", with_entities=True)
    async with broker_on(folder, clock) as broker:
        assert not broker.namespaces.has("team-green")
        assert broker.namespaces.named("team-blue").tier == STANDARD


async def test_a_change_of_the_tier_counts_at_once_and_after_a_restart(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        made = await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
        basic = Tier(TierName.BASIC)
        changed = await update_namespace(
            broker.namespaces, "team-blue", lambda _: basic, now=clock.now()
        )
        assert changed is made
        with pytest.raises(ArgumentInvalid, match="Basic tier has no topics"):
            await create(made, Topic("news"), now=clock.now())
    async with broker_on(folder, clock) as broker:
        assert broker.namespaces.named("team-blue").tier == basic


async def test_how_many_fragments_a_namespace_gives_never_changes(
    folder: Path, clock: ManualClock
) -> None:
    two = Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, 2)
    others = (
        Tier(TierName.PREMIUM, PremiumPartitioning.NAMESPACE, 4),
        Tier(TierName.PREMIUM, PremiumPartitioning.ALWAYS),
        STANDARD,
    )
    async with broker_on(folder, clock) as broker:
        await create_namespace(broker.namespaces, "team-blue", two, now=clock.now())
        for other in others:
            with pytest.raises(InvalidOperation, match="chosen when it is created"):
                await update_namespace(
                    broker.namespaces, "team-blue", partial(_given, other), now=clock.now()
                )


@pytest.mark.parametrize("name", ["first", "second"])
async def test_what_is_configured_is_changed_where_it_is_configured(
    folder: Path, clock: ManualClock, name: str
) -> None:
    async with broker_on(folder, clock, ["first", "second"]) as broker:
        with pytest.raises(InvalidOperation, match="remove it in its configuration file"):
            await delete_namespace(broker.namespaces, name, with_entities=True)
        with pytest.raises(InvalidOperation, match="change it in its configuration file"):
            await update_namespace(
                broker.namespaces, name, lambda _: Tier(TierName.BASIC), now=clock.now()
            )
        assert broker.namespaces.has(name)


async def test_an_unknown_namespace_is_not_found(folder: Path, clock: ManualClock) -> None:
    async with broker_on(folder, clock) as broker:
        with pytest.raises(EntityNotFound, match="no namespace 'team-blue'"):
            await delete_namespace(broker.namespaces, "team-blue", with_entities=True)


@pytest.mark.spec("R7.1")
async def test_a_namespace_with_entities_is_deleted_only_if_they_may_go(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        made = await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
        await create(made, PARTS, now=clock.now())
        with pytest.raises(InvalidOperation, match="has 1 queues, topics and subscriptions"):
            await delete_namespace(broker.namespaces, "team-blue", with_entities=False)
        assert made.has("parts")
        await delete_namespace(broker.namespaces, "team-blue", with_entities=True)
        assert not broker.namespaces.has("team-blue")


@pytest.mark.spec("R7.1")
async def test_another_of_the_same_name_has_nothing_of_the_one_that_was_deleted(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        before = await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
        keys = {*before.access.rules[0].keys}
        await create(before, PARTS, now=clock.now())
        await send_each(before.queue("parts"), clock, 3)
        served = before.queue("parts")
        await delete_namespace(broker.namespaces, "team-blue", with_entities=True)
        assert served.is_gone
        after = await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
        assert not keys & {*after.access.rules[0].keys}
        assert before.access.rules == ()
        assert list(after.queues()) == []
        await create(after, PARTS, now=clock.now())
        assert await receive_all(after.queue("parts"), clock) == []
        # Who had found the one that is gone makes nothing in the other.
        with pytest.raises(EntityNotFound, match="was deleted"):
            await create(before, Queue("late"), now=clock.now())
        rule = AccessRule("late", None, frozenset({Right.SEND}))
        with pytest.raises(EntityNotFound, match="was deleted"):
            await put_access_rule(before, None, rule, now=clock.now())
    async with broker_on(folder, clock) as broker:
        after = broker.namespaces.named("team-blue")
        assert [queue.name for queue in after.queues()] == ["parts"]
        assert await receive_all(after.queue("parts"), clock) == []


@pytest.mark.spec("R7.1")
async def test_what_a_deleted_namespace_had_leaves_every_store(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        made = await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
        await create(made, PARTS, now=clock.now())
        await create(made, Topic("news"), now=clock.now())
        await create(made, Subscription("audit"), topic="news", now=clock.now())
        await send_each(made.queue("parts"), clock, 40)
        await delete_namespace(broker.namespaces, "team-blue", with_entities=True)
    # Cut off before anything was deleted.
    async with broker_on(folder, clock) as broker:
        assert not broker.namespaces.has("team-blue")
        await Removal(broker.namespaces, clock).look()
        assert broker.namespaces.records.by_number == {}
        for store in broker.stores:
            assert await store.entities() == []
            assert await store.access() == []
            assert await store.occupied(SubQueue.MAIN) == []


async def test_a_created_name_that_comes_into_the_configuration_keeps_the_broker_from_starting(
    folder: Path, clock: ManualClock
) -> None:
    async with broker_on(folder, clock) as broker:
        await create_namespace(broker.namespaces, "team-blue", STANDARD, now=clock.now())
    with pytest.raises(StartRefused, match=r"'team-blue' was created .* take it out of the file"):
        async with broker_on(folder, clock, ["first", "TEAM-blue"]):
            pass
    async with broker_on(folder, clock) as broker:
        await delete_namespace(broker.namespaces, "team-blue", with_entities=False)
    async with broker_on(folder, clock, ["first", "TEAM-blue"]) as broker:
        assert broker.namespaces.named("team-blue").access.rules == ()
