"""Reserved messages of sessions: none of a session that is held, and in order."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.operations import (
    EndLapsedSessions,
    ReleaseSession,
    Remove,
    ReserveChosen,
    Reserved,
)
from bendybus.store.port import QueueCounts, SessionRefusal, Store
from bendybus.testing.store_contract.reserving import (
    NAME,
    TOKEN,
    commit,
    give_back,
    open_reader,
    read,
    reserve,
    reserved,
)
from bendybus.testing.store_contract.sessions import (
    LEDGERS,
    SESSIONS,
    UNTIL,
    accept,
    answer_to,
    pages,
    post,
    take,
)
from bendybus.testing.store_contract.subject import (
    NOON,
    ROOMY,
    StoreSubject,
    after,
    contents,
    locks,
    promise,
)


class ReservingSessionsContract(StoreSubject):
    """Promise 14, for messages that are received by session."""

    @pytest.fixture
    async def read_ledgers(self, store: Store) -> Store:
        """Return the store with a queue whose messages are received by session, and a reader."""
        await store.put_entities([LEDGERS])
        await open_reader(store, queue=SESSIONS)
        return store

    @promise(14)
    async def test_a_session_that_is_held_is_left_alone(self, read_ledgers: Store) -> None:
        for each in (b"1", b"2"):
            for session_id in "ab":
                await post(read_ledgers, session_id, session_id.encode() + each)
        assert await accept(read_ledgers, "a") == "a"
        await reserve(read_ledgers, queue=SESSIONS)
        assert contents(await read(read_ledgers, queue=SESSIONS)) == [b"b1", b"b2"]
        assert contents(await take(read_ledgers, "a")) == [b"a1", b"a2"]
        assert await reserve(read_ledgers, queue=SESSIONS, at=1) == Reserved(1, 0, 0)

    @promise(14)
    async def test_a_session_whose_lock_has_ended_is_left_alone_until_it_is_free(
        self, read_ledgers: Store
    ) -> None:
        await post(read_ledgers, "a", b"1")
        await accept(read_ledgers, "a")
        assert (await reserve(read_ledgers, queue=SESSIONS, now=UNTIL)).messages == 0
        await read_ledgers.apply([EndLapsedSessions(10)], now=UNTIL)
        assert (await reserve(read_ledgers, queue=SESSIONS, now=UNTIL)).messages == 1

    @promise(14)
    async def test_nobody_accepts_a_session_for_what_is_reserved(self, read_ledgers: Store) -> None:
        await post(read_ledgers, "a", b"1", b"2")
        await reserve(read_ledgers, queue=SESSIONS)
        assert await accept(read_ledgers) is SessionRefusal.NONE_WAITS
        assert await pages(read_ledgers) == [[]]
        assert await accept(read_ledgers, "a") == "a"
        assert await take(read_ledgers, "a") == []
        await post(read_ledgers, "a", b"3")
        assert contents(await take(read_ledgers, "a")) == [b"3"]
        assert contents(await read(read_ledgers, queue=SESSIONS)) == [b"1", b"2"]

    @promise(14)
    async def test_a_session_that_is_reserved_in_part_goes_on_in_order(
        self, read_ledgers: Store
    ) -> None:
        await post(read_ledgers, "a", b"1", b"2", b"3")
        await reserve(read_ledgers, 2, queue=SESSIONS)
        assert await accept(read_ledgers) == "a"
        [third] = await take(read_ledgers, "a")
        assert third.content == b"3"
        assert await read_ledgers.apply([Remove(SESSIONS, locks([third]))], now=NOON) == [[]]
        assert await answer_to(read_ledgers, ReleaseSession(SESSIONS, "a", 1)) == 1
        await commit(read_ledgers, 1, queue=SESSIONS)
        assert await read_ledgers.counts(SESSIONS) == QueueCounts(0, 0)

    @promise(14)
    async def test_what_comes_back_into_a_session_that_is_held_is_received_next(
        self, read_ledgers: Store
    ) -> None:
        await post(read_ledgers, "a", b"1", b"2")
        await reserve(read_ledgers, 1, queue=SESSIONS)
        await accept(read_ledgers, "a")
        assert contents(await take(read_ledgers, "a")) == [b"2"]
        await give_back(read_ledgers, queue=SESSIONS)
        [first] = await take(read_ledgers, "a")
        assert (first.content, first.delivery_count) == (b"1", 0)
        # The session's own, with its nonce, and two messages.
        assert await answer_to(read_ledgers, ReleaseSession(SESSIONS, "a", 1)) == 3
        assert await accept(read_ledgers, nonce=2) == "a"
        assert contents(await take(read_ledgers, "a", nonce=2)) == [b"1", b"2"]

    @promise(14)
    async def test_a_session_is_waiting_again_when_its_messages_come_back(
        self, read_ledgers: Store
    ) -> None:
        await post(read_ledgers, "a", b"1", b"2")
        await reserve(read_ledgers, queue=SESSIONS)
        await give_back(read_ledgers, queue=SESSIONS)
        assert await accept(read_ledgers) == "a"
        assert contents(await take(read_ledgers, "a")) == [b"1", b"2"]

    @promise(14)
    async def test_sessions_are_reserved_in_bounds_each_in_order(self, read_ledgers: Store) -> None:
        for number in range(20):
            for session_id in "abcdefg":
                await post(read_ledgers, session_id, session_id.encode() + b"%02d" % number)
        read_back: list[bytes] = []
        at = 0
        while (made := await reserve(read_ledgers, 9, queue=SESSIONS, at=at)).messages:
            assert made.messages <= 9
            read_back += contents(await read(read_ledgers, at, made.position, queue=SESSIONS))
            at = made.position
        for session_id in "abcdefg":
            mine = [each for each in read_back if each.startswith(session_id.encode())]
            assert mine == [session_id.encode() + b"%02d" % number for number in range(20)]
        while await commit(read_ledgers, at, queue=SESSIONS) < at:
            continue
        assert await read_ledgers.counts(SESSIONS) == QueueCounts(0, 0)

    @promise(14)
    async def test_sessions_with_nothing_to_reserve_do_not_hide_those_behind(
        self, read_ledgers: Store
    ) -> None:
        for number in range(4):
            await post(read_ledgers, f"ended {number}", b"x", ends=after(1))
        for number in range(4):
            await post(read_ledgers, f"young {number}", b"x")
        await post(read_ledgers, "meant", b"here", now=after(2))
        # Of `young` only what lies beyond the bound is left.
        for at in range(4):
            made = await reserve(read_ledgers, 1, queue=SESSIONS, at=at, now=after(2))
            assert made.messages == 1
        for number in range(4):
            await post(read_ledgers, f"young {number}", b"y", now=after(2))
        made = await reserve(read_ledgers, 2, queue=SESSIONS, at=4, before=10, now=after(3))
        assert made.messages == 1
        assert contents(await read(read_ledgers, 4, 5, queue=SESSIONS)) == [b"here"]

    @promise(14)
    async def test_chosen_messages_of_a_held_session_are_left_out(
        self, read_ledgers: Store
    ) -> None:
        await post(read_ledgers, "a", b"1")
        await post(read_ledgers, "b", b"2")
        await accept(read_ledgers, "a")
        chosen = ReserveChosen(SESSIONS, NAME, TOKEN, [1, 2], ROOMY)
        assert (await reserved(read_ledgers, chosen)).messages == 1
        assert contents(await read(read_ledgers, queue=SESSIONS)) == [b"2"]
