"""Reading very many messages as columns."""
# ruff: noqa: D102 - the name of a test is its sentence

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from bendybus.model.errors import EntityNotFound, StoreUnavailable
from bendybus.model.ids import QueueNumber, sequence_number
from bendybus.model.message import Marks, Message, MessageState, StoredMessage
from bendybus.model.operations import Append, Move, Remove, SetAside
from bendybus.model.scanned import NO_INSTANT, Scanned, Slices
from bendybus.store.port import Store
from bendybus.store.scan import Scan
from bendybus.testing.store_contract.publishing import (
    News,
    PublishingContract,
    publish,
    publish_to_both,
    taker,
)
from bendybus.testing.store_contract.reserving import NAME, TOKEN, open_reader, reserve
from bendybus.testing.store_contract.subject import (
    DEAD,
    FRAGMENT_HERE,
    MAIN,
    NOON,
    PART,
    ROOMY,
    StoreMaker,
    after,
    browse,
    lock,
    promise,
    send,
)

EVERYTHING = Scan(MAIN, 0, (1 << 63) - 1, 1000, ROOMY)
MANY = [b"%05d" % number for number in range(700)]
Shown = tuple[Any, ...]


def shown(message: StoredMessage) -> Shown:
    """Return what a scan shows of a message too."""
    return (
        message.sequence,
        message.enqueued_at,
        message.delivery_count,
        message.state,
        message.expires_at,
        message.session_id,
        message.partition_key,
        message.marks,
        message.content,
    )


def rows(piece: Scanned) -> Iterator[Shown]:
    """Go through the messages of a piece."""
    contents = _bytes(piece.contents, piece.count)
    for at in range(piece.count):
        expires_at = piece.expires_at[at]
        yield (
            piece.sequences[at],
            piece.enqueued_at[at],
            piece.delivery_counts[at],
            piece.states[at],
            None if expires_at == NO_INSTANT else expires_at,
            _text(_bytes(piece.session_ids, piece.count)[at]),
            _text(_bytes(piece.partition_keys, piece.count)[at]),
            None if piece.marks is None else piece.marks[at],
            contents[at],
        )


def _bytes(slices: Slices | None, count: int) -> list[bytes | None]:
    if slices is None:
        return [None] * count
    bounds = zip(slices.starts.tolist(), slices.ends.tolist(), strict=True)
    return [None if start < 0 else slices.joined[start:end] for start, end in bounds]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


async def pieces(store: Store, wish: Scan) -> list[Scanned]:
    """Scan until the end."""
    found = [await store.scan(wish)]
    while (following := found[-1].next_sequence) is not None:
        assert following > wish.from_sequence, "it goes on"
        wish = replace(wish, from_sequence=following)
        found.append(await store.scan(wish))
    return found


async def everything(store: Store, wish: Scan = EVERYTHING) -> list[Shown]:
    """Scan until the end, and return the messages."""
    return [row for piece in await pieces(store, wish) for row in rows(piece)]


async def contents_scanned(store: Store, wish: Scan = EVERYTHING) -> list[object]:
    """Scan until the end, and return the contents."""
    return [row[-1] for row in await everything(store, wish)]


def of(queue: QueueNumber, **changes: object) -> Scan:
    """Wish for all of a queue."""
    return replace(EVERYTHING, queue=queue, **changes)  # type: ignore[arg-type]  # any field


class ScanningContract(PublishingContract):
    """Promises 4, 7 and 9: scanning changes nothing, and shows what browsing shows."""

    @promise(4)
    @pytest.mark.parametrize("count_max", [1, 3, 7, 1000])
    @pytest.mark.parametrize("queue", [MAIN, PART])
    async def test_it_shows_what_browsing_shows(
        self, store: Store, queue: QueueNumber, count_max: int
    ) -> None:
        varied = [
            Message(b"plain"),
            Message(b"short-lived", expires_at=after(60)),
            Message(b"of a session", session_id="it's one", partition_key="it's one"),
            Message(b"with a key", partition_key='k\u00e9\\"y\x00\u2028'),
            Message(b"also with a key", partition_key=""),
            Message(b"later", scheduled_at=after(600)),
            Message(b"", expires_at=after(90)),
        ]
        await store.apply([Append(queue, varied, ROOMY)], now=NOON)
        await send(store, *MANY[:10], queue=queue, now=after(1))
        [first, second] = await lock(store, 2, queue=queue, now=after(2))
        await store.apply([SetAside(queue, [first.lock])], now=after(2))
        assert second
        expected = [shown(each) for each in await browse(store, queue)]
        assert await everything(store, of(queue, count_max=count_max)) == expected

    @promise(4)
    async def test_dead_letters_have_their_marks(self, store: Store) -> None:
        await send(store, b"a", b"b", b"c")
        for at, held in enumerate(await lock(store)):
            marks = Marks("why", f"because {at}", property_changes=b"\xa1\x01a\x40")
            await store.apply([Move(MAIN, DEAD, held.lock, marks, is_counted=True)], now=NOON)
        expected = [shown(each) for each in await browse(store, DEAD)]
        assert len({str(row[-2]) for row in expected}) == 3
        assert await everything(store, of(DEAD)) == expected

    @promise(4)
    @pytest.mark.parametrize("count_max", [1, 10, 100, 1000])
    async def test_gaps_of_any_length_are_passed(self, store: Store, count_max: int) -> None:
        await send(store, *MANY)
        held = await lock(store, 1000)
        kept = {0, 1, 5, 150, 151, 152, 400, 699}
        gone = [each.lock for at, each in enumerate(held) if at not in kept]
        await store.apply([Remove(MAIN, gone)], now=NOON)
        expected = [MANY[at] for at in sorted(kept)]
        assert await contents_scanned(store, of(MAIN, count_max=count_max)) == expected

    @promise(4)
    async def test_few_among_many_numbers_come_in_few_pieces(self, store: Store) -> None:
        await send(store, *MANY)
        held = await lock(store, 1000)
        gone = [each.lock for at, each in enumerate(held) if at % 10]
        await store.apply([Remove(MAIN, gone)], now=NOON)
        assert len(await pieces(store, of(MAIN, count_max=20))) <= 8

    @promise(4)
    async def test_bytes_bound_a_piece_but_one_message_always_comes(self, store: Store) -> None:
        await send(store, *[b"x" * 1000] * 9, b"y" * 5000, *[b"x" * 1000] * 9)
        found = await pieces(store, of(MAIN, bytes_max=4200))
        assert sum(piece.count for piece in found) == 19
        sizes = [len(piece.contents.joined) for piece in found if piece.contents is not None]
        assert all(size <= 4200 for size in sizes if size < 5000)
        assert max(piece.count for piece in found) == 4

    @promise(4)
    @pytest.mark.parametrize(
        ("start", "end", "expected"),
        [
            (0, 1 << 62, [b"a", b"b", b"c"]),
            (-5, sequence_number(FRAGMENT_HERE, 2), [b"a"]),
            (sequence_number(FRAGMENT_HERE, 2), sequence_number(FRAGMENT_HERE, 3), [b"b"]),
            (sequence_number(FRAGMENT_HERE, 3), sequence_number(FRAGMENT_HERE, 3), []),
            (sequence_number(FRAGMENT_HERE, 3), sequence_number(FRAGMENT_HERE, 1), []),
            (sequence_number(FRAGMENT_HERE + 1, 0), 1 << 62, []),
            (0, sequence_number(FRAGMENT_HERE, 0), []),
        ],
    )
    async def test_any_numbers_may_be_the_bounds(
        self, store: Store, start: int, end: int, expected: list[bytes]
    ) -> None:
        await send(store, b"a", b"b", b"c", queue=PART)
        wish = of(PART, from_sequence=start, until_sequence=end)
        assert await contents_scanned(store, wish) == expected

    @promise(4)
    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ({"states": (MessageState.SCHEDULED,)}, [b"later"]),
            (
                {"states": (MessageState.SCHEDULED, MessageState.ACTIVE)},
                [b"a", b"b", b"c", b"later"],
            ),
            ({"states": ()}, []),
            ({"enqueued_from": after(1)}, [b"c", b"later"]),
            ({"enqueued_until": after(1)}, [b"a", b"b"]),
            ({"enqueued_from": after(1), "enqueued_until": after(2)}, [b"c"]),
            ({"session_ids": ("s", "t")}, [b"a"]),
            ({"partition_keys": ("k",)}, [b"b"]),
        ],
        ids=str,
    )
    async def test_only_what_is_wanted_is_shown(
        self, store: Store, choice: dict[str, object], expected: list[bytes]
    ) -> None:
        early = [Message(b"a", session_id="s"), Message(b"b", partition_key="k")]
        await store.apply([Append(MAIN, early, ROOMY)], now=NOON)
        late = [Message(b"c"), Message(b"later", scheduled_at=after(600))]
        await store.apply([Append(MAIN, late, ROOMY)], now=after(1))
        assert await contents_scanned(store, of(MAIN, **choice)) == expected

    @promise(4)
    async def test_contents_are_left_out_if_nobody_wants_them(self, store: Store) -> None:
        await send(store, b"a", b"b")
        piece, *_ = await pieces(store, of(MAIN, has_contents=False))
        assert (piece.count, piece.contents) == (2, None)

    @promise(4)
    async def test_what_came_together_is_shown_among_the_others(
        self, store: Store, news: News
    ) -> None:
        await publish_to_both(store, news, b"before")
        await publish_to_both(store, news, *MANY[:300])
        with_key = [Message(b"with a key", partition_key="k")]
        await publish(store, news, with_key, [taker(news.first, [0])])
        await publish_to_both(store, news, *MANY[300:])
        await publish_to_both(store, news, b"after")
        wishes = [of(news.first, count_max=count) for count in (1000, 100, 7)]
        wishes.append(
            of(news.first, from_sequence=news.number(100), until_sequence=news.number(400))
        )
        scanned = [await everything(store, wish) for wish in wishes]
        expected = [shown(each) for each in await browse(store, news.first)]
        assert len(expected) == 703
        assert scanned == [expected, expected, expected, expected[99:399]]

    @promise(4)
    async def test_what_came_together_is_chosen_like_the_others(
        self, store: Store, news: News
    ) -> None:
        await publish_to_both(store, news, *MANY)
        for choice, count in (
            ({"states": (MessageState.ACTIVE,)}, 700),
            ({"states": (MessageState.DEFERRED,)}, 0),
            ({"enqueued_from": after(1)}, 0),
            ({"enqueued_until": after(1)}, 700),
            ({"session_ids": ("s",)}, 0),
            ({"bytes_max": 2000}, 700),
        ):
            assert len(await everything(store, of(news.second, **choice))) == count

    @promise(4)
    @pytest.mark.parametrize("queue", [MAIN, PART])
    async def test_of_a_reservation_all_is_shown_and_nothing_else(
        self, store: Store, make_store: StoreMaker, queue: QueueNumber
    ) -> None:
        keyed = [Message(b"%d" % at, partition_key="k" if at % 2 else None) for at in range(20)]
        numbers = await send(store, *MANY[:20], queue=queue)
        await store.apply([Append(queue, keyed, ROOMY)], now=after(1))
        await open_reader(store, queue=queue)
        await lock(store, 5, queue=queue)
        await reserve(store, 3, queue=queue)
        await reserve(store, 25, queue=queue, at=1)
        make_store.spoil_content(queue, numbers[6])
        expected = [MANY[5], MANY[7]], [*MANY[8:20], *(each.content for each in keyed[:13])]
        found = await store.reservations(queue, NAME, TOKEN, after=0, until=2, now=NOON)
        for reservation, contents in zip(found, expected, strict=True):
            rows = await everything(store, of(queue, reservation=reservation.number))
            assert [row[-1] for row in rows] == contents
            assert {row[3] for row in rows} == {MessageState.RESERVED}
            start = int(str(rows[1][0]))
            rest = of(queue, reservation=reservation.number, from_sequence=start)
            assert await everything(store, rest) == rows[1:]
        assert await everything(store, of(queue, reservation=99)) == []

    @promise(7)
    @pytest.mark.parametrize("spoiled", [[1], [700], [3, 4, 5, 300]], ids=str)
    async def test_damaged_messages_are_set_aside_and_the_rest_goes_on(
        self, store: Store, make_store: StoreMaker, spoiled: list[int]
    ) -> None:
        await send(store, *MANY)
        for sequence in spoiled:
            make_store.spoil_content(MAIN, sequence)
        rest = [content for at, content in enumerate(MANY, 1) if at not in spoiled]
        for _ in range(2):
            assert await contents_scanned(store) == rest
        assert len(await browse(store)) == len(rest)

    @promise(7)
    async def test_messages_without_content_are_set_aside(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b", b"c")
        make_store.lose_content(MAIN, 2)
        assert await contents_scanned(store) == [b"a", b"c"]

    @promise(7)
    async def test_messages_with_damaged_marks_are_set_aside(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await send(store, b"a", b"b")
        for held in await lock(store):
            move = Move(MAIN, DEAD, held.lock, Marks("why"), is_counted=True)
            await store.apply([move], now=NOON)
        make_store.spoil_marks(DEAD, 1)
        assert await contents_scanned(store, of(DEAD)) == [b"b"]

    @promise(9)
    async def test_a_store_that_is_offline_refuses_and_goes_on_when_it_is_back(
        self, store: Store
    ) -> None:
        await send(store, b"a")
        assert await contents_scanned(store) == [b"a"]
        await store.take_offline("a drill")
        with pytest.raises(StoreUnavailable, match="a drill"):
            await store.scan(EVERYTHING)
        await store.bring_online()
        await send(store, b"b")
        assert await contents_scanned(store) == [b"a", b"b"]

    @promise(4)
    async def test_a_queue_to_be_scanned_that_is_not_here_is_refused(self, store: Store) -> None:
        with pytest.raises(EntityNotFound):
            await store.scan(of(QueueNumber(99)))
