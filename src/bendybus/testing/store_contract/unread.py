"""Long batches that subscriptions take as a whole. A store may keep them together until somebody
looks; nobody can tell.
"""
# ruff: noqa: D102, D205 - the name of a test is its sentence

import pytest

from bendybus.model.ids import COUNTER_MASK, Instant
from bendybus.model.message import Lock, Message, MessageState
from bendybus.model.operations import Guard, Purge, Purged, Remove
from bendybus.store.port import QueueCounts, Store
from bendybus.testing.store_contract.publishing import (
    News,
    PublishingContract,
    publish,
    publish_to_both,
    remove_all,
    taker,
)
from bendybus.testing.store_contract.subject import (
    NOON,
    ROOMY,
    StoreMaker,
    after,
    browse,
    contents,
    contents_of,
    lock,
    locks,
    promise,
)

MANY = [b"%03d" % number for number in range(600)]


class UnreadContract(PublishingContract):
    """Promises 5 and 6 as far as they go for messages that came together."""

    @promise(6)
    async def test_what_came_together_is_acquired_in_order(self, store: Store, news: News) -> None:
        await publish_to_both(store, news, b"before")
        await publish_to_both(store, news, *MANY)
        await publish_to_both(store, news, b"after")
        expected = [b"before", *MANY, b"after"]
        for size, nonce in ((1, 1), (7, 2), (300, 3), (1000, 4)):
            held = await lock(store, size, queue=news.first, nonce=nonce)
            assert contents(held) == expected[: len(held)]
            assert len(held) == min(size, len(expected))
            del expected[: len(held)]
        assert expected == []
        assert await contents_of(store, news.second) == [b"before", *MANY, b"after"]

    @promise(5)
    async def test_their_numbers_have_no_gap(
        self, store: Store, news: News, make_store: StoreMaker
    ) -> None:
        await publish_to_both(store, news, *MANY)
        store = await make_store()
        await publish_to_both(store, news, b"after")
        counters = [each.sequence & COUNTER_MASK for each in await browse(store, news.first)]
        assert counters == list(range(1, len(MANY) + 2))

    @promise(6)
    async def test_they_can_be_looked_at_from_anywhere(self, store: Store, news: News) -> None:
        await publish_to_both(store, news, *MANY)
        for start, count in ((300, 10), (1, 3), (590, 100), (249, 5), (251, 1)):
            found = await store.browse(
                news.first,
                from_sequence=news.number(start),
                count_max=count,
                bytes_max=ROOMY,
            )
            assert contents(found) == MANY[start - 1 : start - 1 + count]
        numbers = [news.number(each) for each in (1, 400, 401, 600, 601)]
        found = await store.find(news.second, numbers)
        assert contents(found) == [MANY[0], MANY[399], MANY[400], MANY[599]]

    @promise(4)
    async def test_one_of_them_is_there_before_anybody_looks(
        self, store: Store, news: News
    ) -> None:
        await publish_to_both(store, news, *MANY)
        chosen = [Lock(news.number(each), 0) for each in (1, 400, 600)]
        assert await store.apply([Remove(news.first, chosen, Guard.THERE)], now=NOON) == [[]]
        assert await contents_of(store, news.first) == [*MANY[1:399], *MANY[400:599]]
        assert await contents_of(store, news.second) == MANY

    @promise(4)
    async def test_they_are_counted_at_once_and_their_bytes_go_with_the_last(
        self, store: Store, news: News
    ) -> None:
        await publish_to_both(store, news, *MANY)
        assert (await store.counts(news.first)).messages == len(MANY)
        size = (await store.counts(news.topic)).bytes
        assert size > 0
        for queue, left in ((news.first, size), (news.second, 0)):
            while (await store.counts(queue)).messages:
                await remove_all(store, queue)
            assert (await store.counts(news.topic)).bytes == left

    @promise(6)
    async def test_they_expire(self, store: Store, news: News) -> None:
        messages = [Message(body) for body in MANY]
        everything = range(len(MANY))
        brief, long = after(10), after(99)
        takers = [
            taker(news.first, everything, expires_at=brief),
            taker(news.second, everything, expires_at=long),
        ]
        await publish(store, news, messages, takers)
        await publish_to_both(store, news, b"after")
        assert await store.next_due() == brief
        assert contents(await lock(store, queue=news.first, now=brief)) == [b"after"]
        gone = 0
        while found := await store.due(now=brief, count_max=100):
            assert {each.guard for each in found} == {Guard.FREE}
            expired = [each.lock for each in found]
            assert await store.apply([Remove(news.first, expired, Guard.FREE)], now=brief) == [[]]
            gone += len(found)
        assert gone == len(MANY)
        assert await store.next_due() in (long, Instant(brief + 60_000))

    @promise(4)
    async def test_they_can_be_purged(self, store: Store, news: News) -> None:
        await publish_to_both(store, news, *MANY)
        purge = Purge(news.first, MessageState.ACTIVE, 10, NOON, from_sequence=0)
        [answer] = await store.apply([purge], now=NOON)
        assert isinstance(answer, Purged)
        assert await contents_of(store, news.first) == MANY[10:]
        assert await store.counts(news.first) == QueueCounts(len(MANY) - 10, 0)

    @promise(1)
    @pytest.mark.parametrize("looked_at", [0, 3])
    async def test_a_subscription_goes_with_what_it_never_read(
        self, store: Store, news: News, looked_at: int
    ) -> None:
        await publish_to_both(store, news, *MANY)
        await lock(store, looked_at, queue=news.first)
        number = next(
            record.number for record in await store.entities() if record.entity.name == "first"
        )
        while not await store.remove_entity(number, count_max=100):
            continue
        while (await store.counts(news.second)).messages:
            held = await lock(store, queue=news.second)
            await store.apply([Remove(news.second, locks(held))], now=NOON)
        assert (await store.counts(news.topic)).bytes == 0
