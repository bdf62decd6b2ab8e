"""What a session's holder has in hand: nobody else touches it, and it comes back as it should."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.message import Message, MessageState
from bendybus.model.operations import (
    Append,
    EndLapsedSessions,
    Guard,
    Purge,
    Purged,
    ReleaseSession,
    Remove,
    TakeNumbers,
    Unlock,
)
from bendybus.store.port import Store
from bendybus.testing.store_contract.sessions import (
    LEDGERS,
    SESSIONS,
    UNTIL,
    accept,
    answer_to,
    post,
    take,
)
from bendybus.testing.store_contract.subject import (
    NOON,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    contents,
    contents_of,
    locks,
    promise,
)


class InHandContract(StoreSubject):
    """Promises 2, 3 and 6 for messages that were received within a session."""

    @pytest.fixture
    async def ledgers(self, store: Store) -> Store:
        """Return the store with a queue whose messages are received by session."""
        await store.put_entities([LEDGERS])
        return store

    @promise(2)
    async def test_a_message_given_back_cannot_be_settled_until_it_is_given_out_again(
        self, ledgers: Store
    ) -> None:
        await post(ledgers, "a", b"1", b"2", b"3")
        await accept(ledgers)
        [first, second] = await take(ledgers, "a", count=2)
        unlock = Unlock(SESSIONS, [first.lock], is_counted=False)
        assert await answer_to(ledgers, unlock) == []
        assert await answer_to(ledgers, unlock) == [first.sequence]
        assert await answer_to(ledgers, Remove(SESSIONS, [first.lock])) == [first.sequence]
        assert await ledgers.find_locked(SESSIONS, locks([first, second]), now=NOON) == [second]
        [again, third] = await take(ledgers, "a")
        assert [again.content, third.content] == [b"1", b"3"]
        remove = Remove(SESSIONS, locks([again, second, third]))
        assert await answer_to(ledgers, remove) == []
        assert await answer_to(ledgers, remove) == [1, 2, 3]

    @promise(2)
    async def test_a_message_not_given_out_cannot_be_settled(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2")
        await post(ledgers, "b", b"3")
        await accept(ledgers, "a")
        [first] = await take(ledgers, "a", count=1)
        ahead = Remove(SESSIONS, [first.lock._replace(sequence=2)])
        assert await answer_to(ledgers, ahead) == [2]
        elsewhere = Remove(SESSIONS, [first.lock._replace(sequence=3)])
        assert await answer_to(ledgers, elsewhere) == [3]

    @promise(6)
    async def test_what_is_in_hand_is_free_again_for_the_next_holder_alone(
        self, ledgers: Store
    ) -> None:
        await post(ledgers, "a", b"1", b"2", b"3")
        await accept(ledgers)
        [_, second, _] = await take(ledgers, "a")
        await answer_to(ledgers, Unlock(SESSIONS, [second.lock], is_counted=False))
        assert contents(await take(ledgers, "a")) == [b"2"]
        assert await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 1)) == 4
        assert await accept(ledgers, nonce=2) == "a"
        assert await ledgers.find_locked(SESSIONS, [second.lock], now=NOON) == []
        assert contents(await take(ledgers, "a", nonce=2, count=2)) == [b"1", b"2"]
        assert contents(await take(ledgers, "a", nonce=2)) == [b"3"]

    @promise(3)
    async def test_what_a_lapsed_session_held_is_freed_in_bounded_turns(
        self, ledgers: Store, make_store: StoreMaker
    ) -> None:
        await post(ledgers, "a", *(b"%d" % number for number in range(5)))
        await accept(ledgers)
        held = await take(ledgers, "a", count=4)
        await answer_to(ledgers, Unlock(SESSIONS, [held[1].lock], is_counted=False))
        assert contents(await take(ledgers, "a", count=1)) == [b"1"]
        store, turns = ledgers, 0
        while found := await store.due(now=UNTIL, count_max=2):
            assert await answer_to(store, EndLapsedSessions(10), now=UNTIL) == 0
            freed = [due.lock for due in found[:1]]
            unlock = Unlock(SESSIONS, freed, is_counted=True, guard=Guard.LAPSED)
            assert await answer_to(store, unlock, now=UNTIL) == []
            assert await answer_to(store, unlock, now=UNTIL) == [freed[0].sequence]
            store, turns = await make_store(), turns + 1
        assert turns == 4
        assert await answer_to(store, EndLapsedSessions(10), now=UNTIL) == 1
        assert await accept(store, nonce=2, now=UNTIL) == "a"
        again = await take(store, "a", nonce=2, now=UNTIL)
        assert [each.delivery_count for each in again] == [1, 1, 1, 1, 0]

    @promise(2)
    async def test_a_message_in_hand_does_not_expire(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", ends=after(5))
        await post(ledgers, "a", b"2", ends=after(7))
        await post(ledgers, "a", b"3")
        await accept(ledgers)
        [first, second, _] = await take(ledgers, "a")
        await answer_to(ledgers, Unlock(SESSIONS, [second.lock], is_counted=False))
        [due] = await ledgers.due(now=after(7), count_max=10)
        assert (due.lock.sequence, due.guard) == (second.sequence, Guard.FREE)
        assert await ledgers.next_due() == after(7)
        both = Remove(SESSIONS, locks([first, second]), Guard.FREE)
        assert await answer_to(ledgers, both, now=after(7)) == [first.sequence]
        assert await ledgers.next_due() == UNTIL
        assert await answer_to(ledgers, Remove(SESSIONS, [first.lock]), now=after(7)) == []

    @promise(6)
    async def test_what_has_expired_is_passed_over_and_stays_free(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", ends=after(5))
        await post(ledgers, "a", b"2")
        await post(ledgers, "a", b"3", ends=after(5))
        await post(ledgers, "a", b"4")
        await accept(ledgers)
        assert contents(await take(ledgers, "a", count=1, now=after(5))) == [b"2"]
        [fourth] = await take(ledgers, "a", now=after(5))
        assert fourth.content == b"4"
        assert [due.guard for due in await ledgers.due(now=after(5), count_max=9)] == [
            Guard.FREE,
            Guard.FREE,
        ]
        await answer_to(ledgers, Unlock(SESSIONS, [fourth.lock], is_counted=False))
        await post(ledgers, "a", b"5")
        assert contents(await take(ledgers, "a", now=after(5))) == [b"4", b"5"]

    @promise(2)
    async def test_what_is_in_hand_is_not_purged(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2", b"3")
        await post(ledgers, "b", b"4")
        await accept(ledgers, "a")
        [first, _] = await take(ledgers, "a", count=2)
        await answer_to(ledgers, Unlock(SESSIONS, [first.lock], is_counted=False))
        purge = Purge(SESSIONS, MessageState.ACTIVE, 10, NOON, session_id="a")
        assert await answer_to(ledgers, purge) == Purged(2, None)
        purge = Purge(SESSIONS, MessageState.ACTIVE, 10, NOON)
        assert await answer_to(ledgers, purge) == Purged(1, None)
        assert await contents_of(ledgers, SESSIONS) == [b"2"]

    @promise(5)
    async def test_what_comes_under_a_number_taken_before_is_not_in_hand(
        self, ledgers: Store
    ) -> None:
        number = await answer_to(ledgers, TakeNumbers(SESSIONS, 1))
        assert isinstance(number, int)
        await post(ledgers, "a", b"later")
        await accept(ledgers)
        assert contents(await take(ledgers, "a")) == [b"later"]
        late = [Message(b"sooner", session_id="a")]
        await answer_to(ledgers, Append(SESSIONS, late, ROOMY, numbered_from=number))
        [sooner] = await take(ledgers, "a")
        assert (sooner.content, sooner.sequence) == (b"sooner", number)
        assert await take(ledgers, "a") == []

    @promise(2)
    async def test_what_is_in_hand_is_not_removed_as_untouched(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2")
        await accept(ledgers)
        [first] = await take(ledgers, "a", count=1)
        both = [first.lock, first.lock._replace(sequence=2)]
        assert await answer_to(ledgers, Remove(SESSIONS, both, Guard.UNTOUCHED)) == [1]

    @promise(4)
    async def test_what_is_in_hand_is_counted_as_locked(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2", b"3")
        await accept(ledgers)
        [first, _] = await take(ledgers, "a", count=2)
        assert await ledgers.locked() == {SESSIONS: 2}
        assert (await ledgers.tallies([SESSIONS]))[SESSIONS].oldest_at == NOON
        await answer_to(ledgers, Unlock(SESSIONS, [first.lock], is_counted=False))
        assert await ledgers.locked() == {SESSIONS: 1}
        await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 1))
        assert await ledgers.locked() == {}

    @promise(4)
    async def test_the_oldest_that_can_be_received_is_not_in_hand(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        await post(ledgers, "b", b"2", now=after(3))
        await accept(ledgers, "a")
        await take(ledgers, "a")
        assert (await ledgers.tallies([SESSIONS]))[SESSIONS].oldest_at == after(3)
