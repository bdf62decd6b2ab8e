"""The catalog's copy in the store."""
# ruff: noqa: D102 - the name of a test is its sentence

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from bendybus.model.entity import (
    EntityStatus,
    Queue,
    QueueProperties,
    Subscription,
    SubscriptionProperties,
    Topic,
    TopicProperties,
)
from bendybus.model.errors import EntityExists, EntityNotFound, ServerBusy
from bendybus.model.ids import EntityNumber, Instant, QueueNumber
from bendybus.model.rule import (
    CorrelationFilter,
    FalseFilter,
    Rule,
    SqlAction,
    SqlFilter,
    TrueFilter,
)
from bendybus.store.port import EntityRecord, FragmentPlace, ParentTopic, Store
from bendybus.testing.store_contract.subject import (
    EVENTS,
    HERE,
    MAIN,
    ORDERS,
    StoreMaker,
    StoreSubject,
    contents_of,
    promise,
    send,
)

EVERYTHING_SET = QueueProperties(
    lock_duration=timedelta(seconds=5),
    max_size_megabytes=2048,
    default_message_time_to_live=timedelta(days=400, microseconds=1),
    dead_lettering_on_message_expiration=True,
    max_delivery_count=3,
    enable_partitioning=False,
    requires_duplicate_detection=True,
    duplicate_detection_history_time_window=timedelta(minutes=3),
    forward_to="events",
    forward_dead_lettered_messages_to="other",
    status=EntityStatus.SEND_DISABLED,
    user_metadata='née "x"\x00',
    auto_delete_on_idle=timedelta(hours=7),
)
NEWS = EntityRecord(
    EntityNumber(3),
    Topic("news", TopicProperties(default_message_time_to_live=timedelta(hours=1))),
    1,
    (FragmentPlace(HERE, QueueNumber(9)),),
)
RULED = EntityRecord(
    EntityNumber(4),
    Subscription(
        "Ruled",
        SubscriptionProperties(
            lock_duration=timedelta(seconds=7),
            dead_lettering_on_filter_evaluation_exceptions=False,
            requires_session=True,
        ),
        (
            Rule("$Default", FalseFilter()),
            Rule("all", TrueFilter(), SqlAction("SET a = @x", {"@x": 1.0})),
            Rule("sql", SqlFilter("a = @b", {"b": UUID(int=5)})),
            Rule(
                "correlation",
                CorrelationFilter(
                    label="née",
                    to="",
                    properties={"a": b"\x00\xff", "b": True, "c": 2**63 - 1, "d": -0.5, "e": "t"},
                ),
            ),
        ),
    ),
    5,
    (FragmentPlace(HERE, QueueNumber(13)),),
    ParentTopic(EntityNumber(3), "news"),
    (Rule("first", SqlFilter("a = 1")),),
)


class CatalogContract(StoreSubject):
    """What `EntityStore` says."""

    @promise(1)
    async def test_entities_come_back_as_they_were_put(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        assert await store.entities() == [ORDERS, EVENTS]
        changed = replace(ORDERS, version=2, entity=Queue("orders", EVERYTHING_SET))
        await store.put_entities([changed])
        assert await store.entities() == [changed, EVENTS]
        again = await make_store()
        assert await again.entities() == [changed, EVENTS]
        assert await again.versions() == {ORDERS.number: 2, EVENTS.number: 1}

    @promise(1)
    async def test_putting_an_entity_again_leaves_its_messages_alone(self, store: Store) -> None:
        await send(store, b"a")
        await store.put_entities([ORDERS])
        await store.put_entities([replace(ORDERS, version=2)])
        assert await contents_of(store) == [b"a"]
        assert await send(store, b"b") == [2]

    @promise(1)
    @pytest.mark.spec("R1.1")
    async def test_a_topic_and_its_subscription_come_back_with_every_rule(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await store.put_entities([NEWS])
        await store.put_entities([RULED])
        expected = [ORDERS, EVENTS, NEWS, RULED]
        assert await store.entities() == expected
        assert RULED.name == "news/Subscriptions/Ruled"
        again = await make_store()
        assert await again.entities() == expected
        assert again.status().fragments == 4

    @promise(4)
    async def test_a_subscription_is_refused_where_its_topic_is_not(self, store: Store) -> None:
        with pytest.raises(EntityNotFound, match="news/Subscriptions/Ruled"):
            await store.put_entities([RULED])
        assert await store.entities() == [ORDERS, EVENTS]

    @promise(1)
    async def test_a_new_store_knows_no_entity(self, make_store: StoreMaker) -> None:
        store = await make_store()
        assert await store.entities() == []

    @promise(4)
    @pytest.mark.parametrize(
        "clash",
        [
            EntityRecord(EntityNumber(3), Queue("ORDERS"), 1, ()),
            EntityRecord(
                EntityNumber(3), Queue("third"), 1, (FragmentPlace(HERE, QueueNumber(MAIN + 1)),)
            ),
        ],
        ids=["same name", "same queues"],
    )
    async def test_an_entity_cannot_take_the_place_of_another(
        self, store: Store, clash: EntityRecord
    ) -> None:
        with pytest.raises(EntityExists):
            await store.put_entities([clash])
        assert await store.entities() == [ORDERS, EVENTS]
        assert await send(store, b"a") == [1]

    @promise(4)
    async def test_the_status_tells_how_many_fragments_are_here(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        assert store.status().fragments == 2
        again = await make_store()
        assert again.status().fragments == 2

    @promise(1)
    @pytest.mark.spec("R7.1")
    async def test_what_is_prepared_is_told_and_changes_nothing(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        changed = replace(ORDERS, version=2, entity=Queue("orders", EVERYTHING_SET))
        await store.prepare([changed, NEWS, RULED])
        store = await make_store()
        assert await store.prepared() == [changed, NEWS, RULED]
        assert await store.entities() == [ORDERS, EVENTS]
        with pytest.raises(EntityNotFound):
            await contents_of(store, NEWS.places[0].first_queue)
        await store.put_entities([changed, NEWS, RULED])
        assert await store.prepared() == []
        assert await store.entities() == [changed, EVENTS, NEWS, RULED]

    @promise(1)
    @pytest.mark.spec("R7.1")
    async def test_what_is_prepared_takes_the_place_of_what_was_and_can_be_undone(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await store.prepare([replace(ORDERS, version=2)])
        if store.is_shared:
            # It may be another's.
            with pytest.raises(ServerBusy):
                await store.prepare([NEWS])
            await store.prepare([])
        await store.prepare([NEWS])
        assert await store.prepared() == [NEWS]
        await store.prepare([])
        assert await (await make_store()).prepared() == []

    @promise(4)
    @pytest.mark.spec("R7.1")
    async def test_what_could_not_be_put_is_not_prepared(self, store: Store) -> None:
        place = FragmentPlace(HERE, QueueNumber(20))
        clash = EntityRecord(EntityNumber(9), Queue("Orders"), 1, (place,))
        with pytest.raises(EntityExists):
            await store.prepare([clash])
        with pytest.raises(EntityNotFound):
            await store.prepare([RULED])
        assert await store.prepared() == []
        await store.prepare([NEWS])
        with pytest.raises((EntityExists, ServerBusy)):
            await store.prepare([clash])
        assert await store.prepared() == [NEWS]

    @promise(1)
    async def test_several_are_put_together_or_none_is(self, store: Store) -> None:
        with pytest.raises(EntityExists):
            await store.put_entities([NEWS, replace(EVENTS, number=EntityNumber(8))])
        assert await store.entities() == [ORDERS, EVENTS]

    @promise(1)
    async def test_namespaces_share_names_and_times_are_kept(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        other = replace(
            ORDERS,
            number=EntityNumber(9),
            namespace="other",
            places=(FragmentPlace(HERE, QueueNumber(20)),),
            created_at=Instant(5),
            updated_at=Instant(7),
        )
        await store.put_entities([other])
        assert await (await make_store()).entities() == [ORDERS, EVENTS, other]
