"""The keys of a namespace: what the settings say, what changed since, and stores that miss it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from bendybus.broker.access_rules import (
    access_rules,
    delete_access_rule,
    put_access_rule,
    renew_key,
)
from bendybus.broker.update import update
from bendybus.model.access import AccessRule, Right
from bendybus.model.access_rules import RULES_MAX, KeyKind, rule_named
from bendybus.model.entity import Queue, QueueProperties, Subscription, Topic
from bendybus.model.errors import (
    ArgumentInvalid,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
    StoreFailed,
    StoreUnavailable,
)
from bendybus.store.port import AccessRecord
from bendybus.store.sqlite.database import Pacing
from bendybus.store.sqlite.store import SqliteStore
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.faulty_disk import Fault, faulty_disk
from bendybus.testing.local_broker import LocalBroker, local_broker

ROOT = AccessRule("root", "a-key-of-at-least-16", frozenset(Right))
SENDER = AccessRule("sender", None, frozenset({Right.SEND}))
ENTITIES = (
    Queue("orders"),
    Queue("parts", QueueProperties(enable_partitioning=True)),
    Topic("news", subscriptions=(Subscription("all"),)),
)
LEVELS = [None, "orders", "parts", "news"]


@asynccontextmanager
async def started(folder: Path, *said: AccessRule, stores: int = 3) -> AsyncIterator[LocalBroker]:
    """Start with settings that say so much of the namespace's rules."""
    async with local_broker(folder, ENTITIES, ManualClock(), stores=stores) as broker:
        await broker.catalog.access.declare(said, now=NOON)
        yield broker


async def held(broker: LocalBroker) -> list[list[AccessRecord]]:
    """Return what every store has."""
    return [await store.access() for store in broker.stores]


async def test_what_the_settings_say_is_in_every_store_and_stays_as_it_was(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, ROOT, SENDER) as broker:
        before = broker.catalog.access.rules
        assert [rule.name for rule in before] == ["root", "sender"]
        assert all(len(rule.keys) == 2 for rule in before)
        records = await held(broker)
        assert records[0][0].rules == before
        assert records == [records[0]] * 3
    async with started(tmp_path, ROOT, SENDER) as broker:
        assert broker.catalog.access.rules == before
        assert await held(broker) == records, "nothing was written again"


async def test_a_renewed_key_stays_until_the_settings_say_something_new(tmp_path: Path) -> None:
    async with started(tmp_path, ROOT) as broker:
        renewed = await renew_key(broker.catalog, None, "root", KeyKind.PRIMARY, now=NOON)
        assert renewed.primary_key != ROOT.primary_key
    async with started(tmp_path, ROOT) as broker:
        assert broker.catalog.access.rules == (renewed,)
    new = replace(ROOT, primary_key="another-key-of-ours")
    async with started(tmp_path, new) as broker:
        [root] = broker.catalog.access.rules
        assert root.keys == ("another-key-of-ours", renewed.secondary_key)


async def test_the_key_that_everyone_knows_is_not_kept_when_the_settings_leave_it_out(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, replace(ROOT, primary_key="SAS_KEY_VALUE")) as broker:
        assert broker.catalog.access.rules[0].primary_key == "SAS_KEY_VALUE"
    async with started(tmp_path, replace(ROOT, primary_key=None)) as broker:
        assert "SAS_KEY_VALUE" not in broker.catalog.access.rules[0].keys


@pytest.mark.spec("R7.1")
async def test_a_store_that_was_away_is_told_when_it_is_back(tmp_path: Path) -> None:
    async with started(tmp_path, ROOT) as broker:
        await broker.stores[1].take_offline("a drill")
        await broker.catalog.access.declare([ROOT, SENDER], now=NOON)
        await broker.stores[1].bring_online()
        await broker.catalog.access.agree()
        records = await held(broker)
        assert [len(each[0].rules) for each in records] == [2, 2, 2]
        assert records == [records[0]] * 3


@pytest.mark.spec("R7.1")
async def test_a_change_that_only_one_store_has_is_completed(tmp_path: Path) -> None:
    async with started(tmp_path, ROOT) as broker:
        [record] = await broker.stores[2].access()
        renewed = (replace(record.rules[0], primary_key="the-renewed-key-here"),)
        await broker.stores[2].put_access(
            AccessRecord(record.namespace, record.version + 1, renewed)
        )
    async with started(tmp_path, ROOT) as broker:
        await broker.catalog.access.agree()
        assert broker.catalog.access.rules == renewed
        assert [each[0].rules for each in await held(broker)] == [renewed] * 3


@pytest.mark.spec("R7.1")
async def test_what_is_decided_without_a_store_wins_over_what_was_cut_short_there(
    tmp_path: Path,
) -> None:
    async with started(tmp_path, ROOT) as broker:
        [record] = await broker.stores[2].access()
        await broker.stores[2].take_offline("a drill")
        await broker.catalog.access.declare([SENDER], now=NOON)
        rules = broker.catalog.access.rules
        await broker.stores[2].bring_online()
        await broker.stores[2].put_access(AccessRecord(record.namespace, record.version + 1, ()))
        await broker.catalog.access.agree()
        assert broker.catalog.access.rules == rules
        assert [each[0].rules for each in await held(broker)] == [rules] * 3


# Changes while the broker runs, at every level


@pytest.mark.parametrize("entity", LEVELS)
async def test_a_rule_is_made_changed_and_deleted_and_outlasts_a_restart(
    tmp_path: Path, entity: str | None
) -> None:
    async with started(tmp_path, ROOT) as broker:
        made = await put_access_rule(broker.catalog, entity, SENDER, now=NOON)
        assert len(made.keys) == 2
        wider = replace(SENDER, rights=frozenset({Right.SEND, Right.LISTEN}))
        changed = await put_access_rule(broker.catalog, entity, wider, now=NOON)
        assert (changed.keys, changed.rights) == (made.keys, wider.rights)
        renewed = await renew_key(broker.catalog, entity, "sender", KeyKind.SECONDARY, now=NOON)
        assert renewed.keys[0] == made.keys[0]
        assert renewed.keys[1] != made.keys[1]
    async with started(tmp_path, ROOT) as broker:
        assert rule_named(access_rules(broker.catalog, entity), "sender") == renewed
        await delete_access_rule(broker.catalog, entity, "sender", now=NOON)
    async with started(tmp_path, ROOT) as broker:
        with pytest.raises(EntityNotFound):
            rule_named(access_rules(broker.catalog, entity), "sender")


@pytest.mark.parametrize("entity", LEVELS)
async def test_a_key_of_ones_own_is_taken_and_a_weak_one_is_not(
    tmp_path: Path, entity: str | None
) -> None:
    async with started(tmp_path, ROOT) as broker:
        await put_access_rule(broker.catalog, entity, SENDER, now=NOON)
        before = access_rules(broker.catalog, entity)
        for weak in ("SAS_KEY_VALUE", "", "with spaces and so on", "x" * 257):
            with pytest.raises(ArgumentInvalid):
                await renew_key(
                    broker.catalog, entity, "sender", KeyKind.PRIMARY, key=weak, now=NOON
                )
            wish = replace(SENDER, secondary_key=weak)
            with pytest.raises(ArgumentInvalid):
                await put_access_rule(broker.catalog, entity, wish, now=NOON)
        assert access_rules(broker.catalog, entity) == before
        own = await renew_key(
            broker.catalog, entity, "sender", KeyKind.PRIMARY, key="a-key-of-ones-own", now=NOON
        )
        assert own.primary_key == "a-key-of-ones-own"


@pytest.mark.spec("R1.5")
@pytest.mark.parametrize("entity", LEVELS)
async def test_the_thirteenth_rule_of_a_level_is_refused(
    tmp_path: Path, entity: str | None
) -> None:
    async with started(tmp_path, ROOT) as broker:
        for number in range(RULES_MAX - len(access_rules(broker.catalog, entity))):
            rule = replace(SENDER, name=f"rule-{number}")
            await put_access_rule(broker.catalog, entity, rule, now=NOON)
        with pytest.raises(QuotaExceeded, match="at most 12"):
            await put_access_rule(broker.catalog, entity, SENDER, now=NOON)
        assert len(access_rules(broker.catalog, entity)) == RULES_MAX


@pytest.mark.spec("R7.1")
@pytest.mark.parametrize("entity", LEVELS)
async def test_with_a_store_away_nothing_changes_anywhere(
    tmp_path: Path, entity: str | None
) -> None:
    async with started(tmp_path, ROOT) as broker:
        await put_access_rule(broker.catalog, entity, SENDER, now=NOON)
        before = access_rules(broker.catalog, entity)
        await broker.stores[0].take_offline("a drill")
        for change in (
            put_access_rule(broker.catalog, entity, replace(SENDER, name="more"), now=NOON),
            renew_key(broker.catalog, entity, "sender", KeyKind.PRIMARY, now=NOON),
            delete_access_rule(broker.catalog, entity, "sender", now=NOON),
        ):
            with pytest.raises(StoreUnavailable):
                await change
        await broker.stores[0].bring_online()
        assert access_rules(broker.catalog, entity) == before
    async with started(tmp_path, ROOT) as broker:
        assert access_rules(broker.catalog, entity) == before


async def test_a_rule_of_the_settings_is_not_deleted_but_there(tmp_path: Path) -> None:
    async with started(tmp_path, ROOT) as broker:
        with pytest.raises(InvalidOperation, match="remove it there"):
            await delete_access_rule(broker.catalog, None, "root", now=NOON)
        assert broker.catalog.access.rules[0].keys[0] == ROOT.primary_key


@pytest.mark.parametrize("entity", ["nowhere", "news/Subscriptions/all"])
async def test_only_queues_and_topics_have_rules_of_their_own(tmp_path: Path, entity: str) -> None:
    async with started(tmp_path, ROOT) as broker:
        with pytest.raises(EntityNotFound):
            access_rules(broker.catalog, entity)
        with pytest.raises(EntityNotFound):
            await put_access_rule(broker.catalog, entity, SENDER, now=NOON)


async def test_a_renewed_key_of_a_declared_queue_outlasts_updates_and_restarts(
    tmp_path: Path,
) -> None:
    declared = replace(SENDER, primary_key="the-key-of-the-file")
    queue = Queue("orders", QueueProperties(authorization_rules=(declared,)))
    async with local_broker(tmp_path, [queue], ManualClock(), stores=2) as broker:
        renewed = await renew_key(broker.catalog, "orders", "sender", KeyKind.PRIMARY, now=NOON)
        # As a client sends a description back: with the keys, and nothing else of the rule.
        echoed = AccessRule("sender", renewed.primary_key, renewed.rights, renewed.secondary_key)
        properties = QueueProperties(authorization_rules=(echoed,), max_delivery_count=7)
        await update(broker.catalog, Queue("orders", properties), now=NOON)
    async with local_broker(tmp_path, [queue], ManualClock(), stores=2) as broker:
        assert access_rules(broker.catalog, "orders") == (renewed,)


@pytest.mark.spec("R7.1")
async def test_a_key_that_a_failing_store_may_have_counts_and_the_store_is_told_again(
    tmp_path: Path,
) -> None:
    with faulty_disk() as disk:

        def make_store(number: int, path: Path) -> SqliteStore:
            vfs = disk.name if number == 1 else None
            return SqliteStore(number, path, vfs=vfs, pacing=Pacing(retry_seconds=3600))

        async with local_broker(
            tmp_path, (), ManualClock(), stores=3, make_store=make_store
        ) as broker:
            access = broker.catalog.access
            await access.declare([ROOT], now=NOON)
            disk.break_at(0, Fault.SYNC_ERROR)
            with pytest.raises(StoreFailed):
                await renew_key(broker.catalog, None, "root", KeyKind.PRIMARY, now=NOON)
            assert access.rules[0].keys[0] != ROOT.primary_key
            await access.agree()
            disk.mend()
            await broker.stores[1].bring_online()
            await access.agree()
            assert [each[0].rules for each in await held(broker)] == [access.rules] * 3
