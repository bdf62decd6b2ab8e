"""Messages that are brought, decided on and published once (promise 13)."""
# ruff: noqa: D102 - the name of a test is its sentence

from array import array
from collections.abc import Sequence
from typing import Any, Final

import pytest

from bendybus.columns.kept_rows import unpacked
from bendybus.model.errors import ArgumentInvalid, EntityNotFound, MessageLockLost, QuotaExceeded
from bendybus.model.ids import Instant, QueueNumber
from bendybus.model.message import Message
from bendybus.model.operations import Answer, Append, Operation
from bendybus.model.packed_messages import PackedMessages
from bendybus.model.staging import (
    AbandonStages,
    Chunk,
    CompleteStage,
    Conclude,
    Decide,
    Decision,
    DropChunk,
    DropStage,
    ExpireStages,
    FoldedRows,
    ForgetStage,
    ForgetWriters,
    KeepChunk,
    OpenStage,
    PublishChunk,
    StagedTally,
    Unfinished,
    WriterKey,
)
from bendybus.store.port import QueueCounts, Store
from bendybus.store.scan import Scan
from bendybus.testing.store_contract.packed_rows import columns_of
from bendybus.testing.store_contract.subject import (
    MAIN,
    NOON,
    ORDERS,
    PART,
    ROOMY,
    StoreMaker,
    StoreSubject,
    after,
    browse,
    contents_of,
    number_of,
    promise,
)

WRITER: Final = WriterKey(MAIN, "tür")
OTHER: Final = WriterKey(MAIN, "other")
KEYS: Final = ("a", "b", "a")


def packed(*contents: bytes, keys: Sequence[str] | None = None) -> PackedMessages:
    """Pack contents, with partition keys if there are any."""
    sizes = array("I", [len(content) for content in contents])
    return PackedMessages(b"".join(contents), sizes, partition_keys=keys)


async def do(store: Store, operation: Operation, *, now: Instant = NOON) -> Answer:
    """Make one operation; return its answer."""
    [answer] = await store.apply([operation], now=now)
    return answer


async def stage(
    store: Store,
    number: int,
    *contents: bytes,
    writer: WriterKey = WRITER,
    batch: int = 0,
    queue: QueueNumber = MAIN,
) -> None:
    """Bring messages as a complete stage, each as a chunk of its own."""
    assert await do(store, OpenStage(writer, batch, number)) == 1
    for ordinal, content in enumerate(contents):
        await do(store, KeepChunk(queue, number, ordinal, packed(content), ROOMY))
    assert await do(store, CompleteStage(number, len(contents), [4])) == 1


async def publish_next(store: Store, stages: Sequence[int], queue: QueueNumber = MAIN) -> bool:
    """Publish the next chunk of some stages; say whether there was one."""
    for chunk in await store.next_chunks(queue, stages):
        await store.apply(publishing(chunk, queue), now=NOON, is_strict=True)
        return True
    return False


def contents_as_sent(numbers: Sequence[int]) -> list[tuple[bytes, str | None]]:
    """Return contents and keys of the messages that `columns_of` says, all of the key "red"."""
    made = unpacked(columns_of(numbers, key="red"))
    return [(message.content, message.partition_key) for message in made]


def publishing(chunk: Chunk, queue: QueueNumber = MAIN) -> list[Operation]:
    """Return what publishes a chunk, whichever way it can be."""
    if isinstance(chunk.messages, FoldedRows):
        return [PublishChunk(queue, chunk.number, None, ROOMY)]
    assert chunk.messages is not None
    return [Append(queue, chunk.messages, ROOMY), DropChunk(chunk.number)]


async def some_chunk(store: Store, number: int, queue: QueueNumber = MAIN) -> Chunk:
    """Return the first chunk of a stage."""
    [chunk] = await store.next_chunks(queue, [number])
    return chunk


class StagingContract(StoreSubject):
    """Promise 13."""

    @promise(13)
    async def test_what_is_staged_is_not_there_for_anybody(self, store: Store) -> None:
        await stage(store, 1, b"a", b"b")
        assert await browse(store) == []
        assert await store.staged_tally() == StagedTally(2, 0)
        assert await store.counts(MAIN) == QueueCounts(0, 0)
        assert (await store.tallies([MAIN]))[MAIN][:3] == (0, 0, 0)

    @promise(13)
    @pytest.mark.parametrize("queue", [MAIN, PART], ids=["conventional", "partitioned"])
    async def test_what_is_published_is_there_as_if_it_had_been_sent(
        self, store: Store, queue: QueueNumber
    ) -> None:
        await stage(store, 1, b"a", b"", b"c" * 300, queue=queue)
        while await publish_next(store, [1], queue):
            continue
        published = await browse(store, queue)
        assert [each.content for each in published] == [b"a", b"", b"c" * 300]
        first = published[0].sequence
        assert [each.sequence - first for each in published] == [0, 1, 2]
        assert {each.enqueued_at for each in published} == {NOON}
        assert await store.counts(queue) == QueueCounts(3, 301 + 12)

    @promise(13)
    @pytest.mark.parametrize(
        "fields",
        [
            {"session_ids": KEYS},
            {"partition_keys": KEYS},
            {"session_ids": KEYS, "partition_keys": KEYS},
            {},
        ],
        ids=["session", "key", "both", "none"],
    )
    async def test_packed_messages_are_added_like_others(
        self, store: Store, fields: dict[str, Any]
    ) -> None:
        contents = (b"first", b"\0\xff", b"")
        sizes = array("I", map(len, contents))
        together = PackedMessages(b"".join(contents), sizes, **fields, expires_at=after(60))
        each = [
            Message(
                content,
                session_id=key if "session_ids" in fields else None,
                partition_key=key if "partition_keys" in fields else None,
                expires_at=after(60),
            )
            for content, key in zip(contents, KEYS, strict=True)
        ]
        assert number_of(await store.apply([Append(MAIN, together, ROOMY)], now=NOON)) == 1
        assert number_of(await store.apply([Append(MAIN, each, ROOMY)], now=NOON)) == 4
        found = await browse(store)
        assert [one._replace(sequence=one.sequence + 3) for one in found[:3]] == found[3:]
        assert (await store.counts(MAIN)).bytes == 2 * (7 + 12)

    @promise(13)
    async def test_a_fragment_that_is_full_takes_no_packed_messages(self, store: Store) -> None:
        with pytest.raises(QuotaExceeded):
            await store.apply([Append(MAIN, packed(b"abc"), 6)], now=NOON)
        assert await browse(store) == []

    @promise(13)
    async def test_chunks_come_by_stage_and_in_their_order(self, store: Store) -> None:
        for number in (2, 1):
            assert await do(store, OpenStage(WRITER, 0, number)) == 1
        for number, ordinal in ((2, 1), (1, 300), (2, 0), (1, 4)):
            content = b"%d.%d" % (number, ordinal)
            await do(store, KeepChunk(MAIN, number, ordinal, packed(content), ROOMY))
        while await publish_next(store, [2, 1]):
            continue
        assert await contents_of(store) == [b"2.0", b"2.1", b"1.4", b"1.300"]

    @promise(13)
    async def test_a_chunk_is_dropped_once_and_undoes_what_comes_with_it(
        self, store: Store
    ) -> None:
        await stage(store, 1, b"a")
        chunk = await some_chunk(store, 1)
        assert await publish_next(store, [1])
        with pytest.raises(MessageLockLost):
            await store.apply(publishing(chunk), now=NOON, is_strict=True)
        assert await contents_of(store) == [b"a"]
        assert await store.next_chunks(MAIN, [1]) == []

    @promise(13)
    @pytest.mark.parametrize("queue", [MAIN, PART], ids=["conventional", "partitioned"])
    async def test_columns_are_published_as_the_messages_that_they_say(
        self, store: Store, make_store: StoreMaker, queue: QueueNumber
    ) -> None:
        for stage_number, numbers in ((1, range(3)), (2, range(3, 5))):
            columns = columns_of(numbers, key="red")
            await do(store, KeepChunk(queue, stage_number, 0, columns, ROOMY))
            assert await publish_next(store, [stage_number], queue)
        store = await make_store()
        assert await store.staged_tally() == StagedTally(0, 0)
        wanted = [each for numbers in (range(3), range(3, 5)) for each in contents_as_sent(numbers)]
        assert (await store.counts(queue)).messages == 5
        scanned = await store.scan(Scan(queue, 0, 1 << 63, 100, ROOMY))
        assert scanned.count == 5
        messages = await store.browse(queue, from_sequence=0, count_max=100, bytes_max=ROOMY)
        assert [(each.content, each.partition_key) for each in messages] == wanted
        assert [each.sequence for each in messages] == list(scanned.sequences)
        assert len({each.sequence for each in messages}) == 5

    @promise(13)
    async def test_columns_that_do_not_fit_are_refused_and_stay(self, store: Store) -> None:
        await do(store, KeepChunk(MAIN, 1, 0, columns_of(range(3)), ROOMY))
        [chunk] = await store.next_chunks(MAIN, [1])
        operations = publishing(chunk)
        for operation in operations:
            if isinstance(operation, Append | PublishChunk):
                operation.bytes_max = 10
        with pytest.raises(QuotaExceeded):
            await store.apply(operations, now=NOON, is_strict=True)
        assert await store.counts(MAIN) == QueueCounts(0, 0)
        assert await publish_next(store, [1])
        assert (await store.counts(MAIN)).messages == 3

    @promise(13)
    async def test_a_chunk_brings_all_that_was_said(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        brought = PackedMessages(
            b"abc",
            array("I", [1, 2]),
            session_ids=["ü", None],
            partition_keys=["ü", "k"],
            message_ids=["1", "2"],
            times_to_live_ms=[None, 5],
            schedule=[7, None],
        )
        await do(store, KeepChunk(MAIN, 1, 0, brought, ROOMY))
        store = await make_store()
        chunk = await some_chunk(store, 1)
        assert (chunk.messages, chunk.message_count) == (brought, 2)

    @promise(13)
    async def test_the_first_decision_for_a_batch_holds(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await stage(store, 1, b"a", b"b")
        await stage(store, 2, b"c")
        decided = Decision(0, [1], 2, [4])
        assert await do(store, Decide(WRITER, 0, [1])) == decided
        assert await do(store, Decide(WRITER, 0, [2])) == decided
        store = await make_store()
        assert await do(store, Decide(WRITER, 0, [2, 1])) == decided
        # Nor does a later batch come before it.
        assert await do(store, Decide(WRITER, 1, [])) == decided
        assert await store.unfinished() == [Unfinished(WRITER, decided)]
        assert await store.staged_tally() == StagedTally(3, 1)

    @promise(13)
    async def test_a_batch_that_was_published_is_not_decided_again(self, store: Store) -> None:
        await stage(store, 1, b"a", batch=5)
        await do(store, Decide(WRITER, 5, [1]))
        assert await do(store, Conclude(WRITER, 5)) == 1
        assert await store.unfinished() == []
        published = Decision(5, (), 0, is_published=True)
        assert await do(store, Decide(WRITER, 5, [1])) == published
        assert await do(store, Decide(WRITER, 4, [])) == published
        assert await do(store, OpenStage(WRITER, 5, 2)) == 0
        assert await do(store, OpenStage(WRITER, 6, 3)) == 1
        assert await do(store, Conclude(WRITER, 5)) == 0
        # Writers do not know each other.
        assert await do(store, OpenStage(OTHER, 0, 4)) == 1
        assert await do(store, Decide(OTHER, 0, [])) == Decision(0, [], 0, [])

    @promise(13)
    async def test_a_stage_that_is_not_complete_or_not_of_the_batch_cannot_be_decided(
        self, store: Store
    ) -> None:
        await stage(store, 1, b"a", batch=0)
        await stage(store, 2, b"b", batch=1)
        await stage(store, 3, b"c", writer=OTHER)
        assert await do(store, OpenStage(WRITER, 0, 4)) == 1
        for wrong in (2, 3, 4, 5):
            with pytest.raises(ArgumentInvalid, match=f": {wrong:x}"):
                await do(store, Decide(WRITER, 0, [1, wrong]))
        assert await store.unfinished() == []
        assert await do(store, Decide(WRITER, 0, [1])) == Decision(0, [1], 1, [4])

    @promise(13)
    async def test_what_was_not_decided_is_stale_once_the_batch_is_published(
        self, store: Store
    ) -> None:
        await stage(store, 1, b"a")
        await stage(store, 2, b"b")
        assert await do(store, OpenStage(WRITER, 0, 3)) == 1
        await stage(store, 4, b"d", batch=1)
        await do(store, Decide(WRITER, 0, [1]))
        assert await store.stale_stages(count_max=9) == []
        await do(store, Conclude(WRITER, 0))
        assert sorted(await store.stale_stages(count_max=9)) == [(2, MAIN), (3, MAIN)]
        assert len(await store.stale_stages(count_max=1)) == 1
        assert await do(store, CompleteStage(3, 0, [])) == 0
        with pytest.raises(ArgumentInvalid):
            await do(store, Decide(WRITER, 1, [2]))

    @promise(13)
    async def test_what_is_abandoned_or_old_is_stale_unless_it_is_decided(
        self, store: Store
    ) -> None:
        for number in (1, 2, 3):
            await stage(store, number, b"x")
        await do(store, Decide(WRITER, 0, [1]))
        await do(store, AbandonStages(WRITER, [1, 2]))
        await do(store, AbandonStages(OTHER, [3]))
        await do(store, AbandonStages(OTHER, []))
        assert await store.stale_stages(count_max=9) == [(2, MAIN)]
        assert await do(store, ExpireStages(after(-1), 9)) == 0
        assert await do(store, ExpireStages(NOON, 9)) == 1
        assert sorted(await store.stale_stages(count_max=9)) == [(2, MAIN), (3, MAIN)]

    @promise(13)
    async def test_a_stage_is_forgotten_in_pieces(self, store: Store) -> None:
        await stage(store, 1, b"a", b"b", b"c")
        await stage(store, 2, b"d")
        await do(store, AbandonStages(WRITER, [1]))
        assert await do(store, DropStage(MAIN, 1, 2)) == 2
        assert await do(store, DropStage(MAIN, 1, 2)) == 1
        assert await do(store, DropStage(MAIN, 1, 2)) == 0
        await do(store, ForgetStage(1))
        # One that is not stale is not forgotten.
        await do(store, ForgetStage(2))
        assert await store.stale_stages(count_max=9) == []
        assert await do(store, Decide(WRITER, 0, [2])) == Decision(0, [2], 1, [4])

    @promise(13)
    async def test_a_writer_is_forgotten_when_it_was_not_used_for_long(self, store: Store) -> None:
        for writer in (WRITER, OTHER):
            await do(store, Decide(writer, 0, []))
        await do(store, Conclude(WRITER, 0), now=after(10))
        assert await do(store, ForgetWriters(after(9), 9)) == 0
        assert await do(store, ForgetWriters(after(10), 9)) == 1
        assert await do(store, OpenStage(WRITER, 0, 1)) == 1
        assert [each.writer for each in await store.unfinished()] == [OTHER]

    @promise(13)
    async def test_no_more_is_staged_than_may_be(self, store: Store) -> None:
        await do(store, KeepChunk(MAIN, 1, 0, packed(b"abc"), 5))
        with pytest.raises(QuotaExceeded, match="3 bytes of staged messages"):
            await do(store, KeepChunk(MAIN, 1, 1, packed(b"def"), 5))
        await do(store, KeepChunk(PART, 1, 1, packed(b"def"), 5))
        await do(store, DropStage(MAIN, 1, 9))
        await do(store, KeepChunk(MAIN, 1, 1, packed(b"def"), 5))

    @promise(13)
    async def test_nothing_is_staged_for_a_queue_that_is_not_here(self, store: Store) -> None:
        nowhere = QueueNumber(999)
        with pytest.raises(EntityNotFound):
            await do(store, KeepChunk(nowhere, 1, 0, packed(b"a"), ROOMY))
        with pytest.raises(EntityNotFound):
            await do(store, OpenStage(WriterKey(nowhere, "w"), 0, 1))
        with pytest.raises(EntityNotFound):
            await do(store, Decide(WriterKey(nowhere, "w"), 0, []))
        with pytest.raises(EntityNotFound):
            await store.next_chunks(nowhere, [1])

    @promise(13)
    async def test_what_is_staged_goes_with_its_entity(self, store: Store) -> None:
        await stage(store, 1, *[b"x"] * 9)
        await do(store, Decide(WRITER, 0, [1]))
        await stage(store, 2, b"part", queue=PART)
        while not await store.remove_entity(ORDERS.number, count_max=10):
            continue
        assert await store.unfinished() == []
        assert await store.stale_stages(count_max=9) == []
        assert await store.next_chunks(PART, [2]) != []
        await store.put_entities([ORDERS])
        assert await store.next_chunks(MAIN, [1]) == []
        assert await do(store, OpenStage(WRITER, 0, 1)) == 1

    @promise(7)
    async def test_a_chunk_whose_bytes_changed_is_not_published(
        self, store: Store, make_store: StoreMaker
    ) -> None:
        await do(store, KeepChunk(MAIN, 1, 0, packed(b"abc", b"d"), ROOMY))
        await do(store, KeepChunk(MAIN, 1, 1, packed(b"good"), ROOMY))
        make_store.spoil_chunk((await some_chunk(store, 1)).number)
        chunk = await some_chunk(store, 1)
        assert (chunk.messages, chunk.message_count) == (None, 2)
        assert await do(store, DropChunk(chunk.number)) == []
        assert (await some_chunk(store, 1)).messages == packed(b"good")
