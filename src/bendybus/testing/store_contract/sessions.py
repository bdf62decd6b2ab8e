"""Sessions: who holds one gets its messages in order, and nobody else gets any of them."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.entity import Queue, QueueProperties
from bendybus.model.errors import EntityNotFound, SessionLockLost
from bendybus.model.ids import EntityNumber, Instant, QueueNumber, SubQueue
from bendybus.model.message import Marks, Message, StoredMessage
from bendybus.model.operations import (
    Activate,
    Append,
    EndLapsedSessions,
    Guard,
    Move,
    Operation,
    ReleaseSession,
    Remove,
    Renew,
    RenewSession,
    SetAside,
    SetSessionState,
    Unlock,
)
from bendybus.store.port import (
    AcceptSession,
    Acquire,
    AcquireDeferred,
    EntityRecord,
    FragmentPlace,
    SessionCursor,
    SessionRefusal,
    Store,
)
from bendybus.testing.store_contract.subject import (
    HERE,
    LOCK_MS,
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

LEDGERS = EntityRecord(
    EntityNumber(7),
    Queue("ledgers", QueueProperties(requires_session=True)),
    1,
    (FragmentPlace(HERE, QueueNumber(41)),),
)
SESSIONS = LEDGERS.places[0].queue(SubQueue.MAIN)
DEAD_SESSIONS = LEDGERS.places[0].queue(SubQueue.DEAD_LETTER)
UNTIL = Instant(NOON + LOCK_MS)


async def post(
    store: Store,
    session_id: str,
    *messages: bytes,
    now: Instant = NOON,
    ends: Instant | None = None,
) -> None:
    """Send messages of one session."""
    given = [Message(each, session_id=session_id, expires_at=ends) for each in messages]
    await store.apply([Append(SESSIONS, given, ROOMY)], now=now)


async def accept(
    store: Store, session_id: str | None = None, *, nonce: int = 1, now: Instant = NOON
) -> str | SessionRefusal:
    """Lock a session for a minute."""
    request = AcceptSession(SESSIONS, session_id, Instant(now + LOCK_MS), nonce)
    return await store.accept_session(request, now=now)


async def take(
    store: Store, session_id: str, *, nonce: int = 1, count: int = 100, now: Instant = NOON
) -> list[StoredMessage]:
    """Lock messages of a session that is held."""
    request = Acquire(SESSIONS, count, ROOMY, UNTIL, nonce, session_id)
    return await store.acquire(request, now=now)


async def answer_to(store: Store, operation: Operation, *, now: Instant = NOON) -> object:
    """Apply one operation."""
    [answer] = await store.apply([operation], now=now)
    return answer


async def pages(
    store: Store, count: int = 100, *, changed_since: Instant | None = None
) -> list[list[str]]:
    """List sessions, so many in a call."""
    found: list[list[str]] = []
    after: SessionCursor | None = None
    while not found or after is not None:
        ids, after = await store.sessions(
            SESSIONS, changed_since=changed_since, after=after, count_max=count
        )
        found.append(ids)
    return found


class SessionsContract(StoreSubject):
    """Promises 1 to 4 and 6 as far as sessions go."""

    @pytest.fixture
    async def ledgers(self, store: Store) -> Store:
        """Return the store with a queue whose messages are received by session."""
        await store.put_entities([LEDGERS])
        return store

    @promise(6)
    async def test_a_session_yields_its_own_messages_oldest_first(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"a1")
        await post(ledgers, "b", b"b1")
        await post(ledgers, "a", b"a2", b"a3")
        assert await accept(ledgers, "a") == "a"
        assert contents(await take(ledgers, "a", count=2)) == [b"a1", b"a2"]
        [third] = await take(ledgers, "a")
        assert (third.content, third.session_id, third.nonce) == (b"a3", "a", 1)
        assert third.locked_until == UNTIL
        assert await take(ledgers, "a") == []

    @promise(2)
    async def test_a_session_is_held_by_one_at_a_time(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        assert await accept(ledgers, "a") == "a"
        assert await accept(ledgers, "a", nonce=2) is SessionRefusal.IS_LOCKED
        assert await accept(ledgers, nonce=2) is SessionRefusal.NONE_WAITS
        assert await accept(ledgers, "empty", nonce=2) == "empty"
        with pytest.raises(SessionLockLost):
            await take(ledgers, "a", nonce=2)

    @promise(6)
    async def test_the_next_session_is_the_one_that_has_waited_longest(
        self, ledgers: Store
    ) -> None:
        for place, session_id in enumerate(("c", "a", "b")):
            await post(ledgers, session_id, b"1", now=after(place))
        await post(ledgers, "c", b"2", now=after(9))
        order = [await accept(ledgers, nonce=nonce, now=after(10)) for nonce in (1, 2, 3, 4)]
        assert order == ["c", "a", "b", SessionRefusal.NONE_WAITS]
        await answer_to(ledgers, ReleaseSession(SESSIONS, "c", 1), now=after(11))
        await answer_to(ledgers, ReleaseSession(SESSIONS, "b", 3), now=after(12))
        assert [await accept(ledgers, nonce=nonce, now=after(13)) for nonce in (5, 6)] == ["c", "b"]

    @promise(2)
    async def test_a_released_session_has_its_messages_back_uncounted(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2")
        await accept(ledgers)
        [first, _] = await take(ledgers, "a")
        assert await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 9)) == 0
        assert await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 1)) == 3
        assert await answer_to(ledgers, Remove(SESSIONS, [first.lock])) == [first.sequence]
        assert await accept(ledgers, nonce=2) == "a"
        again = await take(ledgers, "a", nonce=2)
        assert [(each.content, each.delivery_count) for each in again] == [(b"1", 0), (b"2", 0)]

    @promise(6)
    async def test_a_message_given_back_is_the_next_one(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2", b"3")
        await accept(ledgers)
        [first] = await take(ledgers, "a", count=1)
        assert await answer_to(ledgers, Unlock(SESSIONS, [first.lock], is_counted=True)) == []
        again = await take(ledgers, "a", count=2)
        assert [(each.content, each.delivery_count) for each in again] == [(b"1", 1), (b"2", 0)]

    @promise(3)
    async def test_messages_are_held_as_long_as_their_session(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1", b"2")
        await accept(ledgers)
        [first, second] = await take(ledgers, "a")
        renewed = Instant(UNTIL + LOCK_MS)
        assert await answer_to(ledgers, RenewSession(SESSIONS, "a", 9, renewed)) == 0
        assert await answer_to(ledgers, RenewSession(SESSIONS, "a", 1, renewed)) == 1
        found = await ledgers.find_locked(SESSIONS, [first.lock], now=UNTIL)
        assert [each.locked_until for each in found] == [renewed]
        assert await ledgers.next_due() == renewed
        assert await answer_to(ledgers, Remove(SESSIONS, [first.lock]), now=UNTIL) == []
        assert await ledgers.find_locked(SESSIONS, [second.lock], now=renewed) == []
        lost = await answer_to(ledgers, Remove(SESSIONS, [second.lock]), now=renewed)
        assert lost == [second.sequence]
        assert await answer_to(ledgers, RenewSession(SESSIONS, "a", 1, renewed), now=renewed) == 0

    @promise(3)
    async def test_renewing_a_message_leaves_it_to_its_session(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        await accept(ledgers)
        [held] = await take(ledgers, "a")
        await answer_to(ledgers, Renew(SESSIONS, [held.lock], after(9e6)))
        assert await answer_to(ledgers, Remove(SESSIONS, [held.lock]), now=UNTIL) == [held.sequence]

    @promise(3)
    async def test_a_lapsed_session_is_nobodys_until_its_messages_are_back(
        self, ledgers: Store
    ) -> None:
        await post(ledgers, "a", b"1", b"2")
        await accept(ledgers)
        held = await take(ledgers, "a", count=1)
        assert await ledgers.due(now=NOON, count_max=10) == []
        [due] = await ledgers.due(now=UNTIL, count_max=10)
        assert (due.queue, due.lock, due.guard) == (SESSIONS, held[0].lock, Guard.LAPSED)
        assert await accept(ledgers, "a", nonce=2, now=UNTIL) is SessionRefusal.HAS_LAPSED
        assert await accept(ledgers, nonce=2, now=UNTIL) is SessionRefusal.NONE_WAITS
        assert await answer_to(ledgers, EndLapsedSessions(10), now=UNTIL) == 0
        assert await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 1), now=UNTIL) == 0
        unlock = Unlock(SESSIONS, [due.lock], is_counted=True, guard=Guard.LAPSED)
        assert await ledgers.apply([unlock, EndLapsedSessions(10)], now=UNTIL) == [[], 1]
        assert await ledgers.next_due() is None
        assert await accept(ledgers, nonce=2, now=UNTIL) == "a"
        again = await take(ledgers, "a", nonce=2, now=UNTIL)
        assert [(each.content, each.delivery_count) for each in again] == [(b"1", 1), (b"2", 0)]

    @promise(3)
    async def test_sessions_that_lapse_together_are_freed_in_bounded_turns(
        self, ledgers: Store
    ) -> None:
        for number in range(5):
            assert await accept(ledgers, f"s{number}", nonce=number) == f"s{number}"
        assert await ledgers.next_due() == UNTIL
        freed = [await answer_to(ledgers, EndLapsedSessions(2), now=UNTIL) for _ in range(4)]
        assert freed == [2, 2, 1, 0]

    @promise(4)
    async def test_a_lapsed_guard_does_not_pass_while_the_session_is_held(
        self, ledgers: Store
    ) -> None:
        await post(ledgers, "a", b"1")
        await accept(ledgers)
        [held] = await take(ledgers, "a")
        unlock = Unlock(SESSIONS, [held.lock], is_counted=True, guard=Guard.LAPSED)
        assert await answer_to(ledgers, unlock) == [held.sequence]

    @promise(6)
    async def test_deferred_messages_are_for_who_holds_their_session(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        await accept(ledgers)
        [first] = await take(ledgers, "a")
        await answer_to(ledgers, SetAside(SESSIONS, [first.lock]))
        assert await take(ledgers, "a") == []
        await accept(ledgers, "b", nonce=2)
        numbers = [first.sequence]
        of_b = AcquireDeferred(SESSIONS, numbers, UNTIL, 2, "b")
        assert await ledgers.acquire_deferred(of_b, now=NOON) == []
        of_a = AcquireDeferred(SESSIONS, numbers, UNTIL, 1, "a")
        [held] = await ledgers.acquire_deferred(of_a, now=NOON)
        assert (held.content, held.locked_until) == (b"1", UNTIL)
        await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 1))
        with pytest.raises(SessionLockLost):
            await ledgers.acquire_deferred(of_a, now=NOON)
        await accept(ledgers, "a", nonce=3)
        again = AcquireDeferred(SESSIONS, numbers, UNTIL, 3, "a")
        assert contents(await ledgers.acquire_deferred(again, now=NOON)) == [b"1"]

    @promise(6)
    async def test_a_session_without_a_free_message_does_not_wait(self, ledgers: Store) -> None:
        await post(ledgers, "gone", b"1", ends=after(5))
        await post(ledgers, "done", b"1")
        await accept(ledgers, "done")
        await answer_to(ledgers, Remove(SESSIONS, locks(await take(ledgers, "done"))))
        await answer_to(ledgers, ReleaseSession(SESSIONS, "done", 1))
        assert await accept(ledgers, nonce=2, now=after(5)) is SessionRefusal.NONE_WAITS
        await post(ledgers, "gone", b"2", now=after(6))
        assert await accept(ledgers, nonce=2, now=after(6)) == "gone"
        assert contents(await take(ledgers, "gone", nonce=2, now=after(6))) == [b"2"]

    @promise(6)
    async def test_many_sessions_whose_messages_expired_are_passed_over_in_bounded_calls(
        self, ledgers: Store
    ) -> None:
        old = [Message(b"x", session_id=f"s{at:03}", expires_at=after(5)) for at in range(900)]
        await ledgers.apply([Append(SESSIONS, old, ROOMY)], now=NOON)
        await post(ledgers, "young", b"1", now=after(6))
        answers = [await accept(ledgers, nonce=nonce, now=after(6)) for nonce in range(900)]
        assert answers.index("young") > 1
        assert set(answers[: answers.index("young")]) == {SessionRefusal.ASK_AGAIN}
        assert set(answers[answers.index("young") + 1 :]) == {SessionRefusal.NONE_WAITS}

    @promise(6)
    async def test_a_scheduled_message_makes_its_session_wait_when_its_time_has_come(
        self, ledgers: Store
    ) -> None:
        later = Message(b"later", session_id="a", scheduled_at=after(100))
        await ledgers.apply([Append(SESSIONS, [later], ROOMY)], now=NOON)
        assert await accept(ledgers) is SessionRefusal.NONE_WAITS
        [due] = await ledgers.due(now=after(100), count_max=1)
        await answer_to(ledgers, Activate(SESSIONS, [due.lock.sequence]), now=after(100))
        assert await accept(ledgers, now=after(100)) == "a"
        assert contents(await take(ledgers, "a", now=after(100))) == [b"later"]

    @promise(2)
    async def test_a_dead_letter_has_no_session_to_hold(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        await accept(ledgers)
        [held] = await take(ledgers, "a")
        moved = Move(SESSIONS, DEAD_SESSIONS, held.lock, Marks("why"), is_counted=False)
        assert await answer_to(ledgers, moved) == []
        dead = await ledgers.acquire(Acquire(DEAD_SESSIONS, 1, ROOMY, UNTIL, 9), now=NOON)
        assert [(each.content, each.session_id) for each in dead] == [(b"1", "a")]
        assert await ledgers.apply([Remove(DEAD_SESSIONS, locks(dead))], now=NOON) == [[]]

    @promise(1)
    async def test_a_state_is_kept_without_messages_and_through_a_reopening(
        self, ledgers: Store, make_store: StoreMaker
    ) -> None:
        await accept(ledgers, "a")
        await accept(ledgers, "b", nonce=2)
        assert await ledgers.session_state(SESSIONS, "a", 1, now=NOON) is None
        assert await answer_to(ledgers, SetSessionState(SESSIONS, "a", 1, b"so far")) == 1
        assert await answer_to(ledgers, SetSessionState(SESSIONS, "b", 1, b"mine")) == 0
        await answer_to(ledgers, ReleaseSession(SESSIONS, "a", 1))
        with pytest.raises(SessionLockLost):
            await ledgers.session_state(SESSIONS, "a", 1, now=NOON)
        again = await make_store()
        assert await accept(again, "a", nonce=3, now=after(1)) == "a"
        assert await again.session_state(SESSIONS, "a", 3, now=after(1)) == b"so far"
        await answer_to(again, SetSessionState(SESSIONS, "a", 3, None), now=after(1))
        assert await again.session_state(SESSIONS, "a", 3, now=after(1)) is None
        assert await pages(again) == [[]]

    @promise(1)
    async def test_a_lock_on_a_session_may_outlive_the_store(
        self, ledgers: Store, make_store: StoreMaker
    ) -> None:
        await post(ledgers, "a", b"1")
        await accept(ledgers)
        [held] = await take(ledgers, "a")
        again = await make_store()
        assert await accept(again, "a", nonce=2) is SessionRefusal.IS_LOCKED
        await post(again, "b", b"2")
        assert await accept(again, nonce=2) == "b"
        assert await answer_to(again, Remove(SESSIONS, [held.lock])) == []

    @promise(6)
    async def test_sessions_are_listed_that_have_messages_or_a_state(self, ledgers: Store) -> None:
        await post(ledgers, "free", b"1")
        await post(ledgers, "held", b"1")
        for nonce, session_id in enumerate(("empty", "held", "state")):
            await accept(ledgers, session_id, nonce=nonce)
        await take(ledgers, "held", nonce=1)
        await answer_to(ledgers, SetSessionState(SESSIONS, "state", 2, b""))
        assert await pages(ledgers) == [["free", "held", "state"]]
        assert await pages(ledgers, 3) == [["free", "held"], ["state"]]
        assert await pages(ledgers, 2) == [["free"], ["held", "state"], []]

    @promise(3)
    async def test_sessions_are_listed_whose_state_was_set_after_an_instant(
        self, ledgers: Store
    ) -> None:
        for nonce, (session_id, second) in enumerate({"b": 0, "a": 1, "c": 2, "d": 2}.items()):
            await accept(ledgers, session_id, nonce=nonce)
            state = SetSessionState(SESSIONS, session_id, nonce, b"x")
            await answer_to(ledgers, state, now=after(second))
        assert await pages(ledgers, changed_since=NOON) == [["a", "c", "d"]]
        assert await pages(ledgers, 2, changed_since=NOON) == [["a", "c"], ["d"]]
        assert await pages(ledgers, changed_since=after(2)) == [[]]

    @promise(6)
    async def test_one_session_is_browsed_without_touching_it(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        await post(ledgers, "b", b"2")
        await post(ledgers, "a", b"3", b"4")
        await accept(ledgers, "a")
        await take(ledgers, "a", count=1)

        async def shown(from_sequence: int, count: int) -> list[bytes]:
            found = await ledgers.browse(
                SESSIONS,
                from_sequence=from_sequence,
                count_max=count,
                bytes_max=ROOMY,
                session_id="a",
            )
            return contents(found)

        assert await shown(0, 9) == [b"1", b"3", b"4"]
        assert await shown(2, 1) == [b"3"]
        assert await contents_of(ledgers, SESSIONS) == [b"1", b"2", b"3", b"4"]

    @promise(2)
    async def test_what_a_session_holds_shows_the_end_of_its_lock(self, ledgers: Store) -> None:
        await post(ledgers, "a", b"1")
        await accept(ledgers)
        [held] = await take(ledgers, "a")
        [shown] = await ledgers.find(SESSIONS, [held.sequence])
        assert (shown.locked_until, shown.nonce) == (UNTIL, 1)
        await answer_to(ledgers, Unlock(SESSIONS, [held.lock], is_counted=False))
        [shown] = await ledgers.find(SESSIONS, [held.sequence])
        assert (shown.locked_until, shown.nonce) == (None, None)
        await take(ledgers, "a")
        [shown] = await ledgers.find(SESSIONS, [held.sequence])
        assert (shown.locked_until, shown.nonce) == (UNTIL, 1)

    @promise(6)
    @pytest.mark.parametrize("session_id", ["", "ä/☃ '\"\\", "\U0001f680" * 64, "a\x00b", "null"])
    async def test_an_id_is_any_text(self, ledgers: Store, session_id: str) -> None:
        await post(ledgers, session_id, b"1")
        assert await pages(ledgers) == [[session_id]]
        assert await pages(ledgers, 1) == [[session_id], []]
        assert await accept(ledgers) == session_id
        assert contents(await take(ledgers, session_id)) == [b"1"]
        assert await answer_to(ledgers, ReleaseSession(SESSIONS, session_id, 1)) == 2
        assert await accept(ledgers, session_id, nonce=2) == session_id

    @promise(4)
    async def test_a_queue_that_is_not_here_has_no_sessions(self, ledgers: Store) -> None:
        nowhere = QueueNumber(999)
        for operation in (
            RenewSession(nowhere, "a", 1, UNTIL),
            SetSessionState(nowhere, "a", 1, None),
            ReleaseSession(nowhere, "a", 1),
        ):
            with pytest.raises(EntityNotFound):
                await ledgers.apply([operation], now=NOON)
        with pytest.raises(EntityNotFound):
            await ledgers.accept_session(AcceptSession(nowhere, "a", UNTIL, 1), now=NOON)
        with pytest.raises(EntityNotFound):
            await ledgers.session_state(nowhere, "a", 1, now=NOON)
        with pytest.raises(EntityNotFound):
            await ledgers.sessions(nowhere, changed_since=None, after=None, count_max=1)
