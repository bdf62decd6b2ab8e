"""The catalog's copy in the store."""
# ruff: noqa: D102 - the name of a test is its sentence

from dataclasses import replace
from datetime import timedelta

import pytest

from bendybus.model.entity import EntityStatus, Queue, QueueProperties
from bendybus.model.errors import EntityExists
from bendybus.model.ids import EntityNumber, QueueNumber
from bendybus.store.port import EntityRecord, FragmentPlace, Store
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


class CatalogContract(StoreSubject):
    """What `EntityStore` says."""

    @promise(1)
    async def test_entities_come_back_as_they_were_put(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        assert await store.entities() == [ORDERS, EVENTS]
        changed = replace(ORDERS, version=2, queue=Queue("orders", EVERYTHING_SET))
        await store.put_entity(changed)
        assert await store.entities() == [changed, EVENTS]
        again = await make_store()
        assert await again.entities() == [changed, EVENTS]

    @promise(1)
    async def test_putting_an_entity_again_leaves_its_messages_alone(self, store: Store) -> None:
        await send(store, b"a")
        await store.put_entity(ORDERS)
        await store.put_entity(replace(ORDERS, version=2))
        assert await contents_of(store) == [b"a"]
        assert await send(store, b"b") == [2]

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
            await store.put_entity(clash)
        assert await store.entities() == [ORDERS, EVENTS]
        assert await send(store, b"a") == [1]

    @promise(4)
    async def test_the_status_tells_how_many_fragments_are_here(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        assert store.status().fragments == 2
        again = await make_store()
        assert again.status().fragments == 2
