"""Reserved messages that subscriptions share, and that came many together."""
# ruff: noqa: D102 - the name of a test is its sentence

from bendybus.model.operations import ReserveChosen
from bendybus.store.port import Store
from bendybus.testing.store_contract.publishing import (
    News,
    PublishingContract,
    publish_to_both,
    remove_all,
)
from bendybus.testing.store_contract.reserving import (
    NAME,
    TOKEN,
    commit,
    open_reader,
    read,
    reserve,
    reserved,
)
from bendybus.testing.store_contract.subject import ROOMY, contents, contents_of, promise


class ReservingPublishedContract(PublishingContract):
    """Promise 14, for messages that subscriptions share."""

    @promise(14)
    async def test_what_subscriptions_share_goes_with_the_last(
        self, store: Store, news: News
    ) -> None:
        many = [b"%03d" % number for number in range(600)]
        await publish_to_both(store, news, *many)
        await open_reader(store, queue=news.first)
        at = 0
        read_back: list[bytes] = []
        while (made := await reserve(store, 250, queue=news.first, at=at)).messages:
            read_back += contents(await read(store, at, made.position, queue=news.first))
            at = made.position
        assert read_back == many
        before = await store.counts(news.topic)
        while await commit(store, at, queue=news.first) < at:
            continue
        assert (await store.counts(news.first)).messages == 0
        assert (await store.counts(news.topic)).bytes == before.bytes
        assert await contents_of(store, news.second) == many
        while await contents_of(store, news.second):
            await remove_all(store, news.second)
        assert (await store.counts(news.topic)).bytes == 0

    @promise(14)
    async def test_chosen_ones_among_many_are_reserved(self, store: Store, news: News) -> None:
        await publish_to_both(store, news, *[b"%03d" % number for number in range(600)])
        await open_reader(store, queue=news.first)
        chosen = [news.number(300), news.number(600)]
        operation = ReserveChosen(news.first, NAME, TOKEN, chosen, ROOMY)
        assert (await reserved(store, operation)).messages == 2
        assert contents(await read(store, queue=news.first)) == [b"299", b"599"]
