"""Messages that become free behind very many that were given out since: they are the oldest.

A store may remember where the first free message can be; nobody can tell.
"""
# ruff: noqa: D102 - the name of a test is its sentence

from bendybus.model.ids import Instant
from bendybus.model.message import Message, StoredMessage
from bendybus.model.operations import Append, Unlock
from bendybus.store.port import UNTIL_REOPENED, Acquire, Store
from bendybus.testing.store_contract.publishing import News, PublishingContract, publish, taker
from bendybus.testing.store_contract.reserving import give_back, open_reader, reserve
from bendybus.testing.store_contract.subject import (
    LOCK_MS,
    MAIN,
    NOON,
    ROOMY,
    StoreMaker,
    after,
    contents,
    lock,
    locks,
    promise,
    send,
)
from bendybus.testing.store_contract.taking_numbers import take_numbers

MANY = [b"%04d" % number for number in range(1500)]


async def give_out_many(store: Store) -> None:
    """Give out nearly all that is left of `MANY`, and look again, which finds the rest."""
    assert len(await lock(store, len(MANY) - 10, nonce=8)) == len(MANY) - 10
    assert len(await lock(store, 2, nonce=9)) == 2


class ComingBackContract(PublishingContract):
    """Promise 6 for messages that were given out, or are late."""

    @promise(6)
    async def test_one_that_comes_back_is_first_again_behind_many(self, store: Store) -> None:
        await send(store, *MANY)
        [first, *_] = await lock(store, 3, nonce=1)
        await give_out_many(store)
        await store.apply([Unlock(MAIN, [first.lock], is_counted=True)], now=NOON)
        assert contents(await lock(store, 2, nonce=2)) == [MANY[0], MANY[-5]]

    @promise(6)
    async def test_one_that_is_refused_to_come_back_changes_nothing(self, store: Store) -> None:
        await send(store, *MANY)
        [first, second, _] = await lock(store, 3, nonce=1)
        await give_out_many(store)
        await store.apply([Unlock(MAIN, [second.lock], is_counted=True)], now=NOON)
        late = Instant(NOON + LOCK_MS)
        [lost] = await store.apply([Unlock(MAIN, [first.lock], is_counted=True)], now=late)
        assert lost == [first.sequence]
        assert contents(await lock(store, 1, nonce=2)) == [MANY[1]]

    @promise(6)
    async def test_one_that_a_reader_gives_back_is_first_again(self, store: Store) -> None:
        await send(store, *MANY)
        await open_reader(store)
        await reserve(store, 3)
        await give_out_many(store)
        await give_back(store)
        assert contents(await lock(store, 2, nonce=2)) == MANY[:2]

    @promise(6)
    async def test_one_whose_number_was_given_before_many_others_is_first(
        self, store: Store
    ) -> None:
        number = await take_numbers(store)
        await send(store, *MANY)
        assert len(await lock(store, len(MANY))) == len(MANY)
        assert await lock(store, 1, nonce=2) == []
        append = Append(MAIN, [Message(b"late")], ROOMY, numbered_from=number)
        await store.apply([append], now=NOON)
        assert contents(await lock(store, 1, nonce=3)) == [b"late"]

    @promise(10)
    async def test_one_that_was_held_until_now_is_first_again(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, *MANY)
        wish = Acquire(MAIN, 3, ROOMY, UNTIL_REOPENED, 1)
        assert len(await store.acquire(wish, now=NOON)) == 3
        await give_out_many(store)
        store = await make_store()
        assert contents(await lock(store, 2, nonce=2)) == MANY[:2]

    @promise(6)
    async def test_those_behind_many_that_have_expired_are_found(
        self, store: Store, news: News
    ) -> None:
        messages = [Message(content) for content in MANY]
        ending, staying = range(len(MANY) - 20), range(len(MANY) - 20, len(MANY))
        takers = [taker(news.first, ending, expires_at=after(1)), taker(news.first, staying)]
        await publish(store, news, messages, takers)
        # A store may look at so much of it in one turn.
        held: list[StoredMessage] = []
        for nonce in range(1, 20):
            if held := await lock(store, 1, queue=news.first, nonce=nonce, now=after(2)):
                break
        assert contents(held) == [MANY[-20]]

    @promise(6)
    async def test_those_that_came_while_nothing_was_free_are_found(self, store: Store) -> None:
        await send(store, *MANY)
        held = await lock(store, len(MANY), nonce=1)
        assert await lock(store, 1, nonce=2) == []
        await send(store, b"new")
        assert contents(await lock(store, 2, nonce=3)) == [b"new"]
        await store.apply([Unlock(MAIN, locks(held)[-2:], is_counted=False)], now=NOON)
        assert contents(await lock(store, 5, nonce=4)) == MANY[-2:]
