"""Numbers given out before their messages are there."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import EntityNotFound, QuotaExceeded
from bendybus.model.ids import QueueNumber
from bendybus.model.message import Lock, Message, MessageState
from bendybus.model.operations import Append, Guard, Operation, Remove, TakeNumbers
from bendybus.store.port import QueueCounts, Store
from bendybus.testing.store_contract.subject import (
    FRAGMENT_HERE,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    browse,
    number_of,
    promise,
    send,
)


async def take_numbers(store: Store, count: int = 1, *, queue: QueueNumber = MAIN) -> int:
    """Take numbers; return the first."""
    return number_of(await store.apply([TakeNumbers(queue, count)], now=NOON))


def later(content: bytes = b"later") -> Message:
    """Make a message for another time."""
    return Message(content, scheduled_at=after(100))


class TakingNumbersContract(StoreSubject):
    """Promise 5, as far as numbers go that come before their messages."""

    @promise(5)
    async def test_a_number_that_is_taken_is_given_to_nobody_else(self, store: Store) -> None:
        assert await send(store, b"a") == [1]
        assert await take_numbers(store, 3) == 2
        assert await send(store, b"b") == [5]
        assert await take_numbers(store) == 6

    @promise(5)
    async def test_what_was_taken_stays_taken_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        assert await take_numbers(store, 3) == 1
        store = await make_store()
        assert await send(store, b"a") == [4]

    @promise(5)
    @pytest.mark.parametrize("queue", [MAIN, PART], ids=["conventional", "partitioned"])
    async def test_a_message_lies_at_the_number_taken_for_it(
        self, store: Store, queue: QueueNumber
    ) -> None:
        number = await take_numbers(store, 2, queue=queue)
        assert number >> 48 == (FRAGMENT_HERE if queue is PART else 0)
        await send(store, b"now", queue=queue)
        append = Append(queue, [later()], ROOMY, numbered_from=number + 1)
        assert await store.apply([append], now=NOON) == [number + 1]
        found = {message.content: message for message in await browse(store, queue)}
        assert (found[b"later"].sequence, found[b"later"].state) == (
            number + 1,
            MessageState.SCHEDULED,
        )
        assert found[b"now"].sequence == number + 2

    @promise(1)
    async def test_it_is_counted_when_it_comes_and_when_it_goes(self, store: Store) -> None:
        number = await take_numbers(store)
        assert await store.counts(MAIN) == QueueCounts(0, 0)
        append = Append(MAIN, [later()], ROOMY, numbered_from=number)
        await store.apply([append], now=NOON)
        assert (await store.counts(MAIN)).messages == 1
        removal: list[Operation] = [Remove(MAIN, [Lock(number, 0)], Guard.SCHEDULED)]
        assert await store.apply(removal, now=NOON) == [[]]
        assert await store.counts(MAIN) == QueueCounts(0, 0)

    @promise(4)
    async def test_a_number_is_no_room(self, store: Store) -> None:
        number = await take_numbers(store)
        with pytest.raises(QuotaExceeded):
            await store.apply([Append(MAIN, [later()], 3, numbered_from=number)], now=NOON)
        assert await browse(store) == []
        assert await store.counts(MAIN) == QueueCounts(0, 0)

    @promise(4)
    async def test_a_queue_that_is_not_here_has_no_numbers(self, store: Store) -> None:
        with pytest.raises(EntityNotFound):
            await take_numbers(store, queue=QueueNumber(999))
