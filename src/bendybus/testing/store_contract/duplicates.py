"""Messages whose id was seen before are left out, and old ids are forgotten."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.errors import QuotaExceeded
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Message
from bendybus.model.operations import Append, ForgetSeen, Purged, Remove
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    contents_of,
    lock,
    locks,
    number_of,
    promise,
    send,
)

WINDOW = 60


async def send_ids(store: Store, *ids: str, queue: QueueNumber = MAIN, now: Instant = NOON) -> int:
    """Send a message for each id, within a window of a minute; return the answer."""
    messages = [Message(message_id.encode(), message_id) for message_id in ids]
    return await send_once(store, *messages, queue=queue, now=now)


async def send_once(
    store: Store, *messages: Message, queue: QueueNumber = MAIN, now: Instant = NOON
) -> int:
    """Send messages, within a window of a minute; return the answer."""
    since = Instant(now - WINDOW * 1000)
    operation = Append(queue, messages, ROOMY, duplicates_since=since)
    return number_of(await store.apply([operation], now=now))


async def forget(store: Store, until: Instant, queue: QueueNumber = MAIN) -> int:
    """Forget ids seen until then, as long as there are any."""
    while True:
        [oldest] = await store.apply([ForgetSeen(queue, until)], now=until)
        assert isinstance(oldest, int)
        assert not isinstance(oldest, Purged)
        if not oldest or oldest > until:
            return oldest


class DuplicatesContract(StoreSubject):
    """Promises 1, 4 and 5 as far as duplicate detection goes."""

    @promise(4)
    @pytest.mark.spec("R4")
    async def test_an_id_seen_within_the_window_is_left_out(self, store: Store) -> None:
        assert await send_ids(store, "a", "b") == 1
        assert await send_ids(store, "b", "c", now=after(WINDOW - 1)) == 3
        assert await send_ids(store, "a", "c", now=after(WINDOW - 1)) == 0
        assert await contents_of(store) == [b"a", b"b", b"c"]

    @promise(5)
    async def test_what_is_left_out_takes_no_number_and_no_room(self, store: Store) -> None:
        await send_ids(store, "a")
        before = await store.counts(MAIN)
        assert await send_ids(store, "a") == 0
        assert await store.counts(MAIN) == before
        assert await send_ids(store, "b") == 2

    @promise(4)
    async def test_of_a_batch_the_first_of_each_id_is_taken(self, store: Store) -> None:
        batch = [Message(b"1", "a"), Message(b"2", "b"), Message(b"3", "a"), Message(b"4", "b")]
        assert await send_once(store, *batch) == 1
        assert await contents_of(store) == [b"1", b"2"]

    @promise(3)
    async def test_the_window_counts_from_when_an_id_was_first_seen(self, store: Store) -> None:
        await send_ids(store, "a")
        assert await send_ids(store, "a", now=after(WINDOW - 1)) == 0
        assert await send_ids(store, "a", now=after(WINDOW)) == 2
        # Taken again, it is first seen again.
        assert await send_ids(store, "a", now=after(2 * WINDOW - 1)) == 0

    @promise(4)
    async def test_messages_without_an_id_are_never_duplicates(self, store: Store) -> None:
        await send_once(store, Message(b"1"), Message(b"2", "a"), Message(b"3"))
        await send_once(store, Message(b"4"), Message(b"5", "a"), Message(b"6"))
        assert await contents_of(store) == [b"1", b"2", b"3", b"4", b"6"]

    @promise(4)
    @pytest.mark.spec("R2.1")
    async def test_an_id_counts_together_with_its_key(self, store: Store) -> None:
        different = [
            Message(b"1", "a"),
            Message(b"2", "a", partition_key="k"),
            Message(b"3", "a", session_id="s"),
            Message(b"4", "a", partition_key=""),
            Message(b"5", "ka"),
            Message(b"6", "1:ka"),
        ]
        same = [Message(b"7", "a", session_id="k"), Message(b"8", "a", "s", "s")]
        await send_once(store, *different)
        assert await send_once(store, *same) == 0
        assert len(await contents_of(store)) == len(different)

    @promise(4)
    async def test_queues_know_their_own_ids_only(self, store: Store) -> None:
        await send_ids(store, "a")
        await send_ids(store, "a", queue=PART)
        assert await contents_of(store, PART) == [b"a"]

    @promise(4)
    async def test_an_id_is_known_when_its_message_is_gone(self, store: Store) -> None:
        await send_ids(store, "a")
        await store.apply([Remove(MAIN, locks(await lock(store)))], now=NOON)
        assert await send_ids(store, "a") == 0

    @promise(4)
    async def test_without_a_window_nobody_looks(self, store: Store) -> None:
        message = Message(b"a", "a")
        await store.apply([Append(MAIN, [message, message], ROOMY)], now=NOON)
        assert await send_once(store, message) == 3
        assert len(await contents_of(store)) == 3

    @promise(1)
    async def test_what_was_refused_was_not_seen(self, store: Store) -> None:
        batch = [Append(MAIN, [Message(b"a" * 9, "a")], 10, duplicates_since=after(-WINDOW))]
        with pytest.raises(QuotaExceeded):
            await store.apply(batch, now=NOON)
        assert await send_ids(store, "a") == 1

    @promise(8)
    async def test_a_refusal_beside_others_undoes_only_its_own_ids(self, store: Store) -> None:
        since = after(-WINDOW)
        refused = store.apply(
            [Append(MAIN, [Message(b"a" * 900, "a")], 10, duplicates_since=since)], now=NOON
        )
        taken = store.apply(
            [Append(MAIN, [Message(b"b", "b")], ROOMY, duplicates_since=since)], now=NOON
        )
        with pytest.raises(QuotaExceeded):
            await refused
        await taken
        assert await send_ids(store, "a", "b") == 2
        assert await contents_of(store) == [b"b", b"a"]

    @promise(1)
    async def test_ids_are_known_after_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send_ids(store, "a", "b")
        await send_ids(store, "c", now=after(10))
        again = await make_store()
        assert await send_ids(again, "a", "b", "c", "d", now=after(WINDOW + 5)) == 4
        assert await contents_of(again) == [b"a", b"b", b"c", b"a", b"b", b"d"]

    @promise(4)
    async def test_old_ids_are_forgotten_and_newer_ones_are_not(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send_ids(store, "a", "b")
        await send_ids(store, "a", "c", now=after(WINDOW))
        assert await forget(store, NOON) == after(WINDOW)
        again = await make_store()
        # Far into the past all that is known is a duplicate: only what was forgotten is not.
        past = Append(MAIN, [Message(b"new", x) for x in "abc"], ROOMY, duplicates_since=after(-1))
        await again.apply([past], now=after(WINDOW + 1))
        assert (await contents_of(again))[4:] == [b"new"]
        assert await forget(again, after(1e6)) == 0

    @promise(4)
    async def test_many_ids_are_forgotten_in_bounded_turns(self, store: Store) -> None:
        many = [f"{n:05}" for n in range(10_000)]
        for at in range(0, len(many), 1000):
            await send_ids(store, *many[at : at + 1000], now=after(at / 1000))
        [oldest] = await store.apply([ForgetSeen(MAIN, after(100))], now=after(100))
        assert isinstance(oldest, int)
        assert NOON < oldest < after(9)
        assert await forget(store, after(100)) == 0
        assert await send_ids(store, *many, now=after(20)) == 10_001
        assert (await store.counts(MAIN)).messages == 20_000

    @promise(4)
    async def test_forgetting_nothing_does_no_harm(self, store: Store) -> None:
        await send(store, b"plain")
        assert await forget(store, after(1e6)) == 0
        await send_ids(store, "a")
        assert await forget(store, after(-1)) == NOON
        assert await send_ids(store, "a") == 0
