"""Messages kept aside until their time, and put at the end of their queue when it comes."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import MessageLockLost, QuotaExceeded
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Lock, Message, MessageState
from bendybus.model.operations import Activate, Append, Guard, Remove
from bendybus.store.port import Due, QueueCounts, Store
from bendybus.testing.store_contract.deferring import had_back
from bendybus.testing.store_contract.subject import (
    MAIN,
    NOON,
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

LATER = after(100)


async def schedule(
    store: Store, *messages: Message, queue: QueueNumber = MAIN, now: Instant = NOON
) -> list[int]:
    """Append messages; return their sequence numbers."""
    first = number_of(await store.apply([Append(queue, messages, ROOMY)], now=now))
    return list(range(first, first + len(messages)))


def later(content: bytes, seconds: float = 100) -> Message:
    """Make a message for a time so long after noon."""
    return Message(content, scheduled_at=after(seconds))


class SchedulingContract(StoreSubject):
    """Promises 3, 5 and 6 as far as scheduled messages go."""

    @promise(6)
    async def test_a_scheduled_message_is_shown_but_not_acquired(self, store: Store) -> None:
        await schedule(store, later(b"later"), Message(b"now"))
        assert contents(await lock(store)) == [b"now"]
        assert await lock(store, nonce=2, now=after(1e6)) == []
        [shown, _] = await browse(store)
        assert (shown.content, shown.state) == (b"later", MessageState.SCHEDULED)
        assert (shown.enqueued_at, shown.locked_until) == (LATER, None)
        assert await had_back(store, [shown.sequence]) == []

    @promise(3)
    async def test_a_time_that_has_come_already_means_at_once(self, store: Store) -> None:
        await schedule(store, later(b"past", -1), later(b"present", 0))
        held = await lock(store)
        assert contents(held) == [b"past", b"present"]
        assert {(each.enqueued_at, each.state) for each in held} == {(NOON, MessageState.ACTIVE)}

    @promise(3)
    async def test_scheduled_messages_are_due_at_their_time_and_not_before(
        self, store: Store
    ) -> None:
        await schedule(store, later(b"b", 100), later(b"a", 50))
        await schedule(store, later(b"c", 100), queue=PART)
        assert await store.next_due() == after(50)
        assert await store.due(now=Instant(after(50) - 1), count_max=9) == []
        [c] = await browse(store, PART)
        expected = [
            Due(MAIN, Lock(2, 0), Guard.DUE, None),
            Due(MAIN, Lock(1, 0), Guard.DUE, None),
            Due(PART, Lock(c.sequence, 0), Guard.DUE, None),
        ]
        assert await store.due(now=after(50), count_max=9) == expected[:1]
        assert await store.due(now=after(100), count_max=9) == expected
        assert await store.due(now=after(100), count_max=2) == expected[:2]

    @promise(5)
    @pytest.mark.spec("R4")
    async def test_activated_messages_come_last_in_the_order_named_under_new_numbers(
        self, store: Store
    ) -> None:
        await schedule(store, later(b"c", 90), later(b"a", 80), later(b"d", 90))
        await send(store, b"x")
        due = [each.lock.sequence for each in await store.due(now=LATER, count_max=9)]
        assert await store.apply([Activate(MAIN, [*due, 77, due[0]])], now=LATER) == [[77]]
        await send(store, b"y", now=LATER)
        shown = await browse(store)
        assert contents(shown) == [b"x", b"a", b"c", b"d", b"y"]
        assert [each.sequence for each in shown] == [4, 5, 6, 7, 8]
        assert [each.enqueued_at for each in shown[1:4]] == [after(80), after(90), after(90)]
        assert contents(await lock(store, now=LATER)) == [b"x", b"a", b"c", b"d", b"y"]

    @promise(5)
    async def test_a_fragment_that_is_not_the_first_activates_its_own(self, store: Store) -> None:
        [number] = await schedule(store, later(b"a"), queue=PART)
        assert await store.apply([Activate(PART, [number])], now=LATER) == [[]]
        [held] = await lock(store, queue=PART, now=LATER)
        assert (held.content, held.sequence) == (b"a", number + 1)

    @promise(4)
    async def test_only_what_is_due_is_activated(self, store: Store) -> None:
        await schedule(store, later(b"a"), later(b"b", 101), Message(b"c"))
        asked = [1, 2, 3, 4, 1 << 60]
        assert await store.apply([Activate(MAIN, asked)], now=LATER) == [asked[1:]]
        assert await store.apply([Activate(MAIN, [1])], now=LATER) == [[1]]
        assert contents(await lock(store, now=LATER)) == [b"c", b"a"]

    @promise(6)
    async def test_an_activated_message_keeps_all_that_was_sent(self, store: Store) -> None:
        message = later("née".encode())
        message.session_id, message.partition_key = "s", "s"
        message.expires_at = after(150)
        numbers = await schedule(store, message)
        await store.apply([Activate(MAIN, numbers)], now=LATER)
        [shown] = await browse(store)
        assert (shown.session_id, shown.partition_key) == ("s", "s")
        assert (shown.content, shown.expires_at) == ("née".encode(), after(150))
        assert await store.next_due() == after(150)

    @promise(4)
    async def test_a_scheduled_message_is_cancelled_until_its_time_comes(
        self, store: Store
    ) -> None:
        numbers = await schedule(store, later(b"a"), later(b"b"), Message(b"c"))
        cancel = [Remove(MAIN, [Lock(each, 0) for each in (*numbers, 77)], Guard.SCHEDULED)]
        assert await store.apply(cancel, now=LATER) == [[*numbers, 77]]
        assert await store.apply(cancel, now=Instant(LATER - 1)) == [[3, 77]]
        assert await contents_of(store) == [b"c"]

    @promise(1)
    async def test_a_strict_cancel_is_for_all_or_none(self, store: Store) -> None:
        await schedule(store, later(b"a"), Message(b"b"))
        cancel = Remove(MAIN, [Lock(1, 0), Lock(2, 0)], Guard.SCHEDULED)
        with pytest.raises(MessageLockLost):
            await store.apply([cancel], now=NOON, is_strict=True)
        assert await contents_of(store) == [b"a", b"b"]

    @promise(4)
    async def test_scheduled_messages_count_towards_the_quota(self, store: Store) -> None:
        [number] = await schedule(store, later(b"x" * 100))
        before = await store.counts(MAIN)
        assert before.messages == 1
        with pytest.raises(QuotaExceeded):
            await store.apply([Append(MAIN, [Message(b"y" * 100)], 150)], now=NOON)
        await store.apply([Activate(MAIN, [number])], now=LATER)
        assert await store.counts(MAIN) == before
        held = await lock(store, now=LATER)
        await store.apply([Remove(MAIN, locks(held))], now=LATER)
        assert await store.counts(MAIN) == QueueCounts(messages=0, bytes=0)

    @promise(1)
    async def test_scheduled_and_activated_messages_are_there_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await schedule(store, later(b"a"), later(b"b", 200))
        await store.apply([Activate(MAIN, [1])], now=LATER)
        again = await make_store()
        assert contents(await lock(again, now=LATER)) == [b"a"]
        assert await again.apply([Activate(MAIN, [2])], now=after(200)) == [[]]
        assert contents(await lock(again, nonce=2, now=after(200))) == [b"b"]
