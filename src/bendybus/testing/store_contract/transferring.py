"""Messages that come from another queue come once, with what they bring along (D7)."""
# ruff: noqa: D102 - the name of a test is its sentence

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bendybus.model.errors import QuotaExceeded, ServerBusy
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, SubQueue
from bendybus.model.message import Marks, Message
from bendybus.model.operations import Append, Forget, Remove, Standing, Transfer
from bendybus.store.port import UNTIL_REOPENED, Acquire, Store
from bendybus.testing.store_contract.subject import (
    EVENTS,
    MAIN,
    NOON,
    ORDERS,
    PART,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    browse,
    contents,
    contents_of,
    lock,
    locks,
    number_of,
    promise,
    send,
)

SOURCE = 7 << 32 | 9
OUTBOX = ORDERS.places[0].queue(SubQueue.TRANSFER)
MARKS = Marks(hops=2, enqueued_sequence=70, dead_letter_reason="Änderung", property_changes=b"\0x")


def arrival(
    *sequences: int, queue: QueueNumber = MAIN, source: int = SOURCE, bytes_max: int = ROOMY
) -> Append:
    """Make the append of messages from elsewhere, each with its number there as its content."""
    messages = [Message(str(sequence).encode(), marks=MARKS) for sequence in sequences]
    transfers = [Transfer(source, sequence) for sequence in sequences]
    return Append(queue, messages, bytes_max, transfers=transfers)


async def arrive(store: Store, *sequences: int, queue: QueueNumber = MAIN) -> None:
    """Let messages come from elsewhere."""
    await store.apply([arrival(*sequences, queue=queue)], now=NOON)


async def remembered(store: Store, *, made_until: Instant = NOON) -> list[Transfer]:
    """Return what is remembered."""
    return await store.transfers(after=Transfer(0, 0), made_until=made_until, count_max=100)


def of_source(sequences: Sequence[int]) -> list[Transfer]:
    """Name transfers of messages from elsewhere."""
    return [Transfer(SOURCE, sequence) for sequence in sequences]


class TransferringContract(StoreSubject):
    """Promises 10 and 11, and 1 as far as they go."""

    @promise(11)
    async def test_a_message_that_came_before_is_left_out(self, store: Store) -> None:
        await arrive(store, 1, 2)
        await arrive(store, 2, 3, 1)
        assert await contents_of(store) == [b"1", b"2", b"3"]
        assert (await store.counts(MAIN)).messages == 3

    @promise(11)
    async def test_a_batch_of_which_all_came_before_changes_nothing(self, store: Store) -> None:
        await arrive(store, 1, 2)
        counts = await store.counts(MAIN)
        await arrive(store, 1, 2)
        await arrive(store)
        assert await contents_of(store) == [b"1", b"2"]
        assert await store.counts(MAIN) == counts
        assert number_of(await store.apply([arrival(3)], now=NOON)) == 3

    @promise(11)
    async def test_the_same_number_in_another_queue_is_another_message(self, store: Store) -> None:
        await arrive(store, 1)
        await store.apply([arrival(1, source=SOURCE + 1)], now=NOON)
        assert await contents_of(store) == [b"1", b"1"]

    @promise(11)
    async def test_a_message_that_has_been_taken_away_does_not_come_again(
        self, store: Store
    ) -> None:
        await arrive(store, 1)
        await store.apply([Remove(MAIN, locks(await lock(store)))], now=NOON)
        await arrive(store, 1)
        assert await contents_of(store) == []

    @promise(11)
    async def test_what_came_is_known_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await arrive(store, 1)
        again = await make_store()
        await arrive(again, 1, 2)
        assert await contents_of(again) == [b"1", b"2"]

    @promise(11)
    async def test_a_refused_batch_is_not_remembered(self, store: Store) -> None:
        with pytest.raises(QuotaExceeded):
            await store.apply([arrival(1, 2, bytes_max=3)], now=NOON)
        assert await remembered(store) == []
        await arrive(store, 1, 2)
        assert await contents_of(store) == [b"1", b"2"]

    @promise(11)
    async def test_a_transfer_is_remembered_until_it_is_forgotten(self, store: Store) -> None:
        await arrive(store, 1, 2, 3)
        assert await store.apply([Forget(of_source([1, 3, 99])), Forget([])], now=NOON) == [[], []]
        assert await remembered(store) == of_source([2])

    @promise(11)
    async def test_what_is_remembered_is_told_page_by_page(self, store: Store) -> None:
        await store.apply([arrival(3, 1)], now=NOON)
        await store.apply([arrival(5, queue=PART)], now=after(1))
        assert await remembered(store) == of_source([1, 3])
        first = await store.transfers(after=Transfer(0, 0), made_until=after(1), count_max=2)
        rest = await store.transfers(after=first[-1], made_until=after(1), count_max=2)
        assert (first, rest) == (of_source([1, 3]), of_source([5]))

    @promise(11)
    async def test_what_was_decided_by_entities_that_stand_otherwise_is_refused(
        self, store: Store
    ) -> None:
        known = Standing(ORDERS.number, ORDERS.version)
        newer = known._replace(version=ORDERS.version + 1)
        unknown = Standing(EntityNumber(99), 1)
        for as_of in ([newer], [unknown], [known, newer], [unknown, known]):
            with pytest.raises(ServerBusy):
                await store.apply([replace(arrival(1), as_of=as_of)], now=NOON)
        assert (await contents_of(store), await remembered(store)) == ([], [])
        both = [known, Standing(EVENTS.number, EVENTS.version)]
        await store.apply([replace(arrival(1), as_of=both)], now=NOON)
        assert await contents_of(store) == [b"1"]

    @promise(11)
    async def test_nothing_comes_by_an_entity_that_is_about_to_change_until_it_has_not(
        self, store: Store
    ) -> None:
        changed = replace(ORDERS, version=ORDERS.version + 1)
        by_orders = [Standing(ORDERS.number, ORDERS.version)]
        await store.prepare([changed])
        with pytest.raises(ServerBusy):
            await store.apply([replace(arrival(1), as_of=by_orders)], now=NOON)
        by_events = [Standing(EVENTS.number, EVENTS.version)]
        await store.apply([replace(arrival(2), as_of=by_events)], now=NOON)
        await store.prepare([])
        await store.apply([replace(arrival(3), as_of=by_orders)], now=NOON)
        assert await contents_of(store) == [b"2", b"3"]

    @promise(11)
    async def test_once_an_entity_has_changed_only_who_knows_it_is_heard(
        self, store: Store
    ) -> None:
        changed = replace(ORDERS, version=ORDERS.version + 1)
        await store.prepare([changed])
        await store.put_entities([changed], is_prepared=True)
        as_before = [Standing(ORDERS.number, ORDERS.version)]
        with pytest.raises(ServerBusy):
            await store.apply([replace(arrival(1), as_of=as_before)], now=NOON)
        as_now = [Standing(changed.number, changed.version)]
        await store.apply([replace(arrival(2), as_of=as_now)], now=NOON)
        assert await contents_of(store) == [b"2"]

    @promise(1)
    async def test_a_message_brings_its_marks_along(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await arrive(store, 1)
        await arrive(store, 2, queue=PART)
        again = await make_store()
        [first], [second] = await browse(again), await browse(again, PART)
        assert (first.marks, second.marks) == (MARKS, MARKS)
        [acquired] = await lock(again)
        assert acquired.marks == MARKS

    @promise(1)
    async def test_a_message_in_an_outbox_keeps_where_it_is_to_go(self, store: Store) -> None:
        marks = Marks(destination="elsewhere")
        operation = Append(OUTBOX, [Message(b"a", marks=marks), Message(b"b")], ROOMY)
        await store.apply([operation], now=NOON)
        assert [message.marks for message in await browse(store, OUTBOX)] == [marks, None]

    @promise(1)
    async def test_the_outboxes_that_hold_something_are_known(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a")
        assert await store.occupied(SubQueue.TRANSFER) == []
        await store.apply([Append(OUTBOX, [Message(b"b")], ROOMY)], now=NOON)
        again = await make_store()
        assert await again.occupied(SubQueue.TRANSFER) == [OUTBOX]
        assert await again.occupied(SubQueue.MAIN) == [MAIN]
        [held] = await lock(again, queue=OUTBOX)
        await again.apply([Remove(OUTBOX, [held.lock])], now=NOON)
        assert await again.occupied(SubQueue.TRANSFER) == []

    @promise(10)
    async def test_a_hold_lasts_while_the_store_is_open_and_no_longer(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        wish = Acquire(MAIN, 1, ROOMY, UNTIL_REOPENED, nonce=4)
        [held] = await store.acquire(wish, now=NOON)
        far = after(1e9)
        assert contents(await lock(store, now=far)) == [b"b"]
        await store.apply([Remove(MAIN, locks(await lock(store, nonce=2)))], now=NOON)
        assert contents(await store.find_locked(MAIN, [held.lock], now=far)) == [b"a"]
        again = await make_store()
        assert await again.apply([Remove(MAIN, [held.lock])], now=NOON) == [[held.sequence]]
        [free] = await lock(again, count=1, nonce=3)
        assert (free.content, free.delivery_count) == (b"a", 0)

    @promise(10)
    async def test_a_hold_is_never_due(self, store: Store) -> None:
        await send(store, b"a")
        await store.acquire(Acquire(MAIN, 1, ROOMY, UNTIL_REOPENED, nonce=4), now=NOON)
        assert await store.due(now=after(1e9), count_max=10) == []
        assert await store.next_due() is None
