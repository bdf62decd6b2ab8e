"""redrive: dead letters are tried again, each once, and nothing else is touched."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from bendybus.broker.look import Stretch
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.redrive import RedriveWish
from bendybus.broker.settle import settle
from bendybus.model.errors import (
    ArgumentOutOfRange,
    EntityNotFound,
    InvalidOperation,
    StoreUnavailable,
    Unauthorized,
)
from bendybus.model.ids import Instant, SubQueue, fragment_of
from bendybus.model.message import Message, StoredMessage
from bendybus.model.operations import Answer, Operation
from bendybus.model.outcome import Abandon, DeadLetter, Defer
from bendybus.model.partitioning import fragment_for
from bendybus.model.selection import Selection
from bendybus.testing.clock import NOON, ManualClock
from bendybus.testing.local_broker import forwarding, local_broker
from tests.unit.broker.forwarding_queues import holding, queue
from tests.unit.broker.redriving_verbs import ENTITIES, KINDS, LIFE, Redriving
from tests.unit.broker.topic_messages import note, seen, send_notes

pytestmark = pytest.mark.spec("R8.2")
BOTH_KINDS = pytest.mark.parametrize("name", KINDS)


@pytest.fixture
async def letters(tmp_path: Path) -> AsyncIterator[Redriving]:
    clock = ManualClock()
    async with local_broker(tmp_path, ENTITIES, clock, stores=2) as broker:
        yield Redriving(broker, clock)


def notes(count: int, **fields: str) -> list[Message]:
    return [note(f"{number}", {"number": number}, **fields) for number in range(count)]


def bodies(messages: list[StoredMessage]) -> list[str]:
    return [seen(message)[0] for message in messages]


@BOTH_KINDS
async def test_dead_letters_go_back_to_where_they_were(letters: Redriving, name: str) -> None:
    dead = await letters.bury(name, notes(30))
    letters.clock.advance(100)

    done = await letters.redrive(name)

    assert (done.moved, done.looked_at, done.locked, done.refused) == (30, 30, 0, 0)
    assert await letters.dead(name) == []
    alive = await letters.alive(name)
    assert sorted(bodies(alive)) == sorted(bodies(dead))
    assert {each.delivery_count for each in alive} == {0}
    assert {each.marks for each in alive} == {None}
    assert {each.enqueued_at for each in alive} == {NOON}
    ends = letters.clock.now() + round(LIFE.total_seconds() * 1000)
    assert {each.expires_at for each in alive} == {ends}


async def test_another_subscription_gets_nothing(letters: Redriving) -> None:
    await letters.bury("news/Subscriptions/all", notes(3))
    before = await letters.alive("news/Subscriptions/others")
    await letters.redrive("news/Subscriptions/all")
    assert await letters.alive("news/Subscriptions/others") == before


@BOTH_KINDS
async def test_many_go_in_parts_and_in_order(letters: Redriving, name: str) -> None:
    given = [note(f"{at}", session_id=f"s{at % 3}") for at in range(300)]
    await letters.bury(name, given)

    done = await letters.redrive(name, part=7)

    assert (done.moved, done.looked_at) == (300, 300)
    alive = await letters.alive(name)
    for session in ("s0", "s1", "s2"):
        own = [int(seen(each)[0]) for each in alive if each.session_id == session]
        assert own == sorted(own)
        assert len(own) == 100


@BOTH_KINDS
async def test_what_came_meanwhile_is_for_the_next_run(letters: Redriving, name: str) -> None:
    [first, *_] = await letters.bury(name, notes(1, session_id="s"))
    wish = RedriveWish(Stretch(0, first.sequence, 100), Selection())
    if fragment_of(first.sequence):
        wish = RedriveWish(Stretch(first.sequence, first.sequence, 100), Selection())
    await letters.bury(name, notes(2, session_id="s"))

    done = await letters.ask(name, wish)

    assert (done.moved, done.next_sequence) == (1, None)
    assert len(await letters.dead(name)) == 2


@BOTH_KINDS
async def test_what_somebody_holds_or_set_aside_stays(letters: Redriving, name: str) -> None:
    await letters.bury(name, notes(5, session_id="s"))
    dead = letters.queue(name).sub_queues[SubQueue.DEAD_LETTER]
    receiver = Receiver(dead, ReceiveMode.PEEK_LOCK, letters.clock)
    [held] = await receiver.receive(1)
    [aside] = await receiver.receive(1)
    assert not await settle(dead, [aside.lock], Defer(), letters.clock)

    done = await letters.redrive(name)

    assert (done.moved, done.locked, done.looked_at) == (3, 1, 5)
    assert {each.sequence for each in await letters.dead(name)} == {held.sequence, aside.sequence}


async def test_what_is_touched_between_look_and_move_stays(
    letters: Redriving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verb looks first; what a receiver does meanwhile must not be undone by the move."""
    await letters.bury("orders", notes(250))
    dead = letters.queue("orders").sub_queues[SubQueue.DEAD_LETTER]
    source = dead.sources[0]
    found = await source.store.browse(
        source.number, from_sequence=0, count_max=1000, bytes_max=1 << 30
    )
    receiver = Receiver(dead, ReceiveMode.PEEK_LOCK, letters.clock)
    [held] = await receiver.receive(1)
    assert not await settle(dead, [held.lock], Abandon(b"\xa1\x01a\x41"), letters.clock)
    await receiver.close()

    async def shown_before(*_: object, **__: object) -> list[StoredMessage]:
        return found

    with monkeypatch.context() as patch:
        patch.setattr(source.store, "browse", shown_before)
        done = await letters.redrive("orders")

    assert (done.moved, done.locked) == (249, 1)
    [left] = await letters.dead("orders")
    assert left.sequence == held.sequence
    assert left.marks is not None
    assert left.marks.property_changes


@BOTH_KINDS
async def test_a_condition_chooses(letters: Redriving, name: str) -> None:
    await letters.bury(name, notes(10))
    done = await letters.redrive(name, condition="number >= 7 AND sys.DeliveryCount = 0")
    assert (done.moved, done.looked_at) == (3, 10)
    assert sorted(bodies(await letters.alive(name))) == ["7", "8", "9"]


async def test_reason_and_age_choose(letters: Redriving) -> None:
    await letters.bury("orders", notes(2), "Old")
    letters.clock.advance(10)
    await letters.bury("orders", notes(3), "New")
    for selection, count in [
        (Selection(reason="Nobody's"), 0),
        (Selection(enqueued_since=Instant(NOON + 10_001)), 0),
        (Selection(enqueued_until=Instant(NOON - 1)), 0),
        (Selection(reason="Old", enqueued_until=NOON), 2),
        (Selection(reason="New", enqueued_since=Instant(NOON + 10_000)), 3),
    ]:
        assert (await letters.redrive("orders", selection=selection)).moved == count


async def test_the_reason_can_be_asked_for_as_a_property(letters: Redriving) -> None:
    await letters.bury("orders", notes(2), "Old")
    await letters.bury("orders", notes(3), "New")
    assert (await letters.redrive("orders", condition="DeadLetterReason = 'New'")).moved == 3


@BOTH_KINDS
async def test_a_dry_run_counts_and_changes_nothing(letters: Redriving, name: str) -> None:
    before = await letters.bury(name, notes(10))
    done = await letters.redrive(name, condition="number < 4", is_dry_run=True)
    assert (done.moved, done.looked_at) == (4, 10)
    assert await letters.dead(name) == before
    assert await letters.alive(name) == []


# Edited on the way


@BOTH_KINDS
async def test_an_edit_changes_properties_and_nothing_else(letters: Redriving, name: str) -> None:
    await letters.bury(name, notes(3), "Broken")
    edit = "SET why = DeadLetterReason; SET sys.Label = 'again'; REMOVE number"

    done = await letters.redrive(name, edit=edit)

    assert done.moved == 3
    assert await letters.dead(name) == []
    alive = await letters.alive(name)
    assert sorted(map(seen, alive), key=str) == [
        (f"{number}", {"why": "Broken"}, "again") for number in range(3)
    ]
    assert {each.marks for each in alive} == {None}
    ends = letters.clock.now() + round(LIFE.total_seconds() * 1000)
    assert {each.expires_at for each in alive} == {ends}


@pytest.mark.parametrize("name", ["parts", "feed/Subscriptions/all"])
async def test_an_edited_key_takes_a_message_to_its_fragment(letters: Redriving, name: str) -> None:
    await letters.bury(name, notes(32))
    async with forwarding(letters.broker):
        done = await letters.redrive(name, edit="SET sys.PartitionKey = 'red'")
        alive = await holding(letters.broker, name, 32)
    assert done.moved == 32
    assert {fragment_of(each.sequence) for each in alive} == {fragment_for("red", 16)}
    assert sorted(map(int, bodies(alive))) == list(range(32))


async def test_edits_that_cannot_be_are_told_and_the_message_stays(letters: Redriving) -> None:
    await letters.bury("orders", [note("a", session_id="s"), note("b")])
    done = await letters.redrive("orders", edit="SET sys.PartitionKey = 'other'")
    assert (done.moved, done.refused) == (1, 1)
    assert done.why is not None
    assert "differs from its SessionId" in done.why
    assert bodies(await letters.dead("orders")) == ["a"]


async def test_an_edited_message_that_somebody_touches_stays_and_the_others_go(
    letters: Redriving, monkeypatch: pytest.MonkeyPatch
) -> None:
    await letters.bury("orders", notes(20))
    dead = letters.queue("orders").sub_queues[SubQueue.DEAD_LETTER]
    store = dead.sources[0].store
    apply = store.apply
    receiver = Receiver(dead, ReceiveMode.PEEK_LOCK, letters.clock)
    held: list[StoredMessage] = []

    async def too_late(
        operations: Sequence[Operation], *, now: Instant, is_strict: bool = False
    ) -> list[Answer]:
        """Let a receiver be quicker than the redrive."""
        if not held:
            held.extend(await receiver.receive(1))
        return await apply(operations, now=now, is_strict=is_strict)

    monkeypatch.setattr(store, "apply", too_late)
    done = await letters.redrive("orders", edit="SET again = TRUE")

    assert (done.moved, done.locked) == (19, 1)
    assert [each.sequence for each in await letters.dead("orders")] == [held[0].sequence]
    assert bodies(await letters.alive("orders")) == [f"{number}" for number in range(1, 20)]


# Where they go


@BOTH_KINDS
async def test_they_can_go_to_another_entity_each_once(letters: Redriving, name: str) -> None:
    await letters.bury(name, notes(20))
    async with forwarding(letters.broker):
        done = await letters.redrive(name, to="elsewhere")
        arrived = await holding(letters.broker, "elsewhere", 20)
    assert done.moved == 20
    assert sorted(map(int, bodies(arrived))) == list(range(20))
    assert {each.marks for each in arrived} == {None}
    assert await letters.alive(name) == []


async def test_to_the_topic_all_subscriptions_get_them_again(letters: Redriving) -> None:
    await letters.bury("news/Subscriptions/all", notes(4))
    async with forwarding(letters.broker):
        await letters.redrive("news/Subscriptions/all", to="news")
        await holding(letters.broker, "news/Subscriptions/others", 8)
        await holding(letters.broker, "news/Subscriptions/all", 4)


async def test_an_edit_goes_along_to_another_entity(letters: Redriving) -> None:
    await letters.bury("orders", notes(2))
    async with forwarding(letters.broker):
        await letters.redrive("orders", to="elsewhere", edit="SET again = TRUE; REMOVE number")
        arrived = await holding(letters.broker, "elsewhere", 2)
    assert [seen(each)[:2] for each in arrived] == [("0", {"again": True}), ("1", {"again": True})]


async def test_its_own_name_means_back(letters: Redriving) -> None:
    await letters.bury("orders", notes(2))
    assert (await letters.redrive("orders", to="ORDERS")).moved == 2
    assert bodies(await letters.alive("orders")) == ["0", "1"]


async def test_forwarded_dead_letters_go_back_to_their_source(tmp_path: Path) -> None:
    clock = ManualClock()
    queues = [
        queue("a", forward_dead_lettered_messages_to="morgue"),
        queue("b", forward_dead_lettered_messages_to="morgue", enable_partitioning=True),
        queue("morgue"),
    ]
    async with local_broker(tmp_path, queues, clock, stores=2) as broker, forwarding(broker):
        letters = Redriving(broker, clock)
        await letters.bury("a", notes(3))
        await letters.bury("b", notes(5))
        await holding(broker, "morgue", 8)
        await send_notes(broker.queue("morgue"), clock, note("no dead letter"))

        done = await letters.redrive("morgue", sub_queue=SubQueue.MAIN, is_to_source=True)

        assert (done.moved, done.refused) == (8, 1)
        assert done.why is not None
        assert "does not say what it is a dead letter of" in done.why
        assert sorted(bodies(await holding(broker, "a", 3))) == ["0", "1", "2"]
        assert len(await holding(broker, "b", 5)) == 5
        [left] = await holding(broker, "morgue", 1)
        assert seen(left)[0] == "no dead letter"


async def test_what_could_not_be_delivered_goes_out_again(tmp_path: Path) -> None:
    clock = ManualClock()
    queues = [queue("a", "b"), queue("b", "a")]
    async with local_broker(tmp_path, queues, clock, stores=2) as broker, forwarding(broker):
        letters = Redriving(broker, clock)
        await send_notes(broker.queue("a"), clock, note("round and round"))
        stuck = SubQueue.TRANSFER_DEAD_LETTER
        await holding(broker, "a", 1, sub_queue=stuck)

        # It goes round once more, and is stuck again for the same reason.
        done = await letters.redrive("a", sub_queue=stuck)

        assert done.moved == 1
        [again] = await holding(broker, "a", 1, sub_queue=stuck)
        assert again.sequence == 2


async def test_a_message_without_a_session_cannot_go_where_one_is_needed(
    letters: Redriving,
) -> None:
    await letters.bury("orders", [note("with", session_id="s"), note("without")])
    async with forwarding(letters.broker):
        done = await letters.redrive("orders", to="ledgers")
        await holding(letters.broker, "ledgers", 1)
    assert (done.moved, done.refused) == (1, 1)
    assert done.why is not None
    assert "requires one" in done.why
    assert bodies(await letters.dead("orders")) == ["without"]


async def test_duplicate_detection_lets_a_message_back(letters: Redriving) -> None:
    await letters.bury("once", notes(2))
    assert (await letters.redrive("once")).moved == 2
    assert len(await letters.alive("once")) == 2


# What is refused


@pytest.mark.parametrize(
    ("to", "error"),
    [
        ("nowhere", EntityNotFound),
        ("news/Subscriptions/all", InvalidOperation),
        ("elsewhere", Unauthorized),
    ],
)
async def test_a_place_that_cannot_be_is_refused_and_nothing_moves(
    letters: Redriving, to: str, error: type[Exception]
) -> None:
    before = await letters.bury("orders", notes(2))
    letters.closed.add("elsewhere")
    with pytest.raises(error):
        await letters.redrive("orders", to=to)
    assert await letters.dead("orders") == before


async def test_only_dead_letters_are_redriven(letters: Redriving) -> None:
    with pytest.raises(InvalidOperation, match="Only dead letters"):
        await letters.redrive("orders", sub_queue=SubQueue.MAIN, to="elsewhere")


@pytest.mark.parametrize("stretch", [Stretch(5 << 48, 5 << 48, 1), Stretch(0, 1 << 48, 1)])
async def test_a_stretch_is_of_one_fragment_that_there_is(
    letters: Redriving, stretch: Stretch
) -> None:
    with pytest.raises(ArgumentOutOfRange):
        await letters.ask("orders", RedriveWish(stretch, Selection()))


@pytest.mark.spec("R1.2")
async def test_a_store_that_is_away_is_told_and_the_others_go_on(letters: Redriving) -> None:
    await letters.bury("parts", [note(f"{at}", session_id=f"s{at}") for at in range(32)])
    await letters.broker.stores[1].take_offline("a test")
    moved = 0
    for fragment in range(16):
        first = fragment << 48
        wish = RedriveWish(Stretch(first, first + 100, 1000), Selection())
        source = letters.queue("parts").main.sources[fragment]
        if source.store.is_online:
            moved += (await letters.ask("parts", wish)).moved
        else:
            with pytest.raises(StoreUnavailable):
                await letters.ask("parts", wish)
    assert 0 < moved < 32


async def test_a_dead_letter_that_fails_again_is_found_by_the_next_run(
    letters: Redriving,
) -> None:
    await letters.bury("orders", notes(1))
    await letters.redrive("orders")
    main = letters.queue("orders").main
    receiver = Receiver(main, ReceiveMode.PEEK_LOCK, letters.clock)
    [held] = await receiver.receive(1)
    assert not await settle(main, [held.lock], DeadLetter("Again"), letters.clock)
    assert (await letters.redrive("orders")).moved == 1
