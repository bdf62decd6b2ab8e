"""Sequence numbers: from 1, without gaps, never twice, the fragment on top."""
# ruff: noqa: D102 - the name of a test is its sentence

import pytest

from bendybus.model.ids import fragment_of, sequence_number
from bendybus.model.message import Lock, Marks, Message
from bendybus.model.operations import Append, Guard, Move, Remove
from bendybus.store.port import Store
from bendybus.testing.store_contract.subject import (
    DEAD,
    FRAGMENT_HERE,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreMaker,
    StoreSubject,
    browse,
    lock,
    locks,
    promise,
    send,
)


class NumberingContract(StoreSubject):
    """Promise 5."""

    @promise(5)
    async def test_numbers_rise_by_one_from_one(self, store: Store) -> None:
        assert await send(store, b"a") == [1]
        assert await send(store, b"b", b"c") == [2, 3]
        assert [message.sequence for message in await browse(store)] == [1, 2, 3]
        assert [message.sequence for message in await lock(store)] == [1, 2, 3]

    @promise(5)
    async def test_appends_of_one_list_are_numbered_in_its_order(self, store: Store) -> None:
        answers = await store.apply(
            [
                Append(MAIN, [Message(b"a"), Message(b"b")], ROOMY),
                Append(MAIN, [Message(b"c")], ROOMY),
            ],
            now=NOON,
        )
        assert answers == [1, 3]

    @promise(5)
    async def test_each_queue_counts_for_itself(self, store: Store) -> None:
        await send(store, b"a", b"b")
        assert await send(store, b"c", queue=DEAD) == [1]

    @promise(5)
    async def test_no_number_is_given_twice_even_after_removal_and_reopening(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        await store.apply([Remove(MAIN, locks(await lock(store)))], now=NOON)
        again = await make_store()
        assert await browse(again) == []
        assert await send(again, b"c") == [3]

    @promise(5)
    @pytest.mark.spec("R2.6")
    async def test_the_fragment_is_in_the_top_bits(self, store: Store) -> None:
        numbers = await send(store, b"a", b"b", queue=PART)
        assert numbers == [sequence_number(FRAGMENT_HERE, 1), sequence_number(FRAGMENT_HERE, 2)]
        held = await lock(store, queue=PART)
        assert [fragment_of(message.sequence) for message in held] == [FRAGMENT_HERE] * 2
        assert [message.sequence for message in await browse(store, PART)] == numbers
        assert await store.find_locked(PART, locks(held), now=NOON) == held
        assert await store.apply([Remove(PART, locks(held))], now=NOON) == [[]]

    @promise(5)
    @pytest.mark.parametrize(
        "stranger",
        [
            sequence_number(FRAGMENT_HERE, 1),
            sequence_number(1, 1),
            1 + (1 << 44),
            0,
            -1,
            (1 << 64) - 1,
        ],
    )
    async def test_a_number_of_another_fragment_names_no_message_here(
        self, store: Store, stranger: int
    ) -> None:
        await send(store, b"a")
        [held] = await lock(store, nonce=7)
        wrong = Lock(stranger, 7)
        answers = await store.apply(
            [
                Remove(MAIN, [wrong]),
                Remove(MAIN, [wrong], Guard.FREE),
                Move(MAIN, DEAD, wrong, Marks(), is_counted=True),
            ],
            now=NOON,
        )
        assert answers == [[stranger]] * 3
        assert await store.find_locked(MAIN, [wrong, held.lock], now=NOON) == [held]
        assert await store.apply([Remove(MAIN, [wrong, held.lock])], now=NOON) == [[stranger]]
