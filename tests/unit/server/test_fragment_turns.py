"""A sender's messages wait for a turn at their fragment, and gather while they wait (R2.1)."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message
from bendybus.model.plain_messages import PlainMessages
from bendybus.server.fragment_turns import (
    FEW_MESSAGES,
    MANY_MESSAGES,
    SPREAD_GROUPS,
    SPREAD_TURNS_MAX,
    TURNS_MAX,
    FragmentTurns,
    Group,
    Intake,
)

FRAGMENTS = range(3 * SPREAD_TURNS_MAX)


class Storing:
    """Groups are stored when the test says so."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Group, asyncio.Future[None]]] = []
        self.turns = FragmentTurns(self._store, self._spawn, self._note_end)
        self.messages_done = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def fragments(self) -> list[FragmentIndex | None]:
        """Those of the groups that are being stored."""
        return [group.fragment for group, _ in self.under_way]

    async def put(self, *groups: Group) -> None:
        """Let groups wait; return when those whose turn it is are being stored."""
        self.turns.put(groups)
        await self._all_is_begun()

    async def end_first(self) -> Group:
        """Let the first group be stored; return it when what follows from that is done."""
        group, stored = self.under_way.pop(0)
        stored.set_result(None)
        await self._all_is_begun()
        return group

    async def _store(self, group: Group) -> None:
        stored = asyncio.get_running_loop().create_future()
        self.under_way.append((group, stored))
        await stored

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _note_end(self, messages_done: int) -> None:
        self.messages_done += messages_done

    async def _all_is_begun(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def group(fragment: int | None, *texts: str, is_whole: bool = False) -> Group:
    """Return a group with a message of each text, answered by deliveries of the same number."""
    messages = [Message(text.encode()) for text in texts]
    place = None if fragment is None else FragmentIndex(fragment)
    return Group(place, is_whole, messages, list(range(len(texts))), [], [Intake(len(texts), 0)])


def large_group(fragment: int) -> Group:
    """Return a group that waits for its turn, and of which a few are much."""
    assert (MANY_MESSAGES - 1) * TURNS_MAX > FEW_MESSAGES
    return group(fragment, *["x"] * (MANY_MESSAGES - 1))


def texts(messages: Sequence[Message]) -> list[bytes]:
    """Return what tells messages apart."""
    return [message.content for message in messages]


@pytest.mark.spec("R2.1")
async def test_while_there_is_little_to_store_every_fragment_has_its_turn_at_once() -> None:
    storing = Storing()

    await storing.put(*(group(each, "a") for each in FRAGMENTS))

    assert storing.fragments == list(FRAGMENTS)


@pytest.mark.spec("R2.1")
async def test_while_there_is_much_to_store_few_fragments_have_their_turn_and_the_next_follow() -> (
    None
):
    storing = Storing()

    await storing.put(*(large_group(each) for each in FRAGMENTS))
    first = storing.fragments
    await storing.end_first()

    assert first == list(FRAGMENTS[:SPREAD_TURNS_MAX])
    assert storing.fragments == list(FRAGMENTS[1 : SPREAD_TURNS_MAX + 1])
    assert storing.messages_done == MANY_MESSAGES - 1
    assert storing.turns.message_count == (len(FRAGMENTS) - 1) * (MANY_MESSAGES - 1)


async def test_much_to_store_is_gathered_and_little_is_not() -> None:
    little, much = Storing(), Storing()

    await little.put(*(group(each, "a") for each in FRAGMENTS))
    await much.put(*(large_group(each) for each in FRAGMENTS[:TURNS_MAX]))
    gathers = little.turns.is_gathering, much.turns.is_gathering
    await much.end_first()

    assert gathers == (False, True)
    assert not much.turns.is_gathering, "the next has its turn at once"


@pytest.mark.spec("R2.1")
async def test_what_comes_for_a_fragment_that_waits_is_stored_with_what_waits_in_order() -> None:
    storing = Storing()
    last = FRAGMENTS[-1]
    await storing.put(*(large_group(each) for each in FRAGMENTS[:-1]), group(last, "a", "b"))

    await storing.put(group(last, "c"))
    while last not in storing.fragments:
        await storing.end_first()
    [gathered] = [each for each, _ in storing.under_way if each.fragment == last]

    assert texts(gathered.messages) == [b"a", b"b", b"c"]
    assert gathered.delivery_ids == [0, 1, 0]
    assert len(gathered.intakes) == 2


async def test_what_comes_for_a_fragment_that_has_its_turn_waits_behind_all_others() -> None:
    storing = Storing()
    await storing.put(*(large_group(each) for each in FRAGMENTS))

    await storing.put(large_group(0))
    begun = [(await storing.end_first()).fragment for _ in range(len(FRAGMENTS) + 1)]

    assert begun == [*FRAGMENTS, 0]


async def test_a_batch_stays_by_itself_and_keeps_its_place() -> None:
    storing = Storing()
    await storing.put(*(large_group(each) for each in FRAGMENTS[:TURNS_MAX]))
    last = FRAGMENTS[-1]

    for each in (group(last, "a"), group(last, "b", "c", is_whole=True), group(last, "d")):
        await storing.put(each)
    await storing.put(group(last, "e"))
    for _ in range(TURNS_MAX):
        await storing.end_first()

    assert [texts(each.messages) for each, _ in storing.under_way] == [
        [b"a"],
        [b"b", b"c"],
        [b"d", b"e"],
    ]
    # They have one turn together.
    assert storing.turns.running == 1
    for _ in range(2):
        await storing.end_first()
        assert storing.turns.running == 1
    await storing.end_first()
    assert storing.turns.running == 0


async def test_who_has_gathered_many_need_not_wait() -> None:
    storing = Storing()
    await storing.put(*(large_group(each) for each in FRAGMENTS))
    last = FRAGMENTS[-1]

    await storing.put(group(last, "one more"))

    assert storing.fragments == [*FRAGMENTS[:SPREAD_TURNS_MAX], last]


async def test_what_is_stored_is_in_nobodys_way_any_more() -> None:
    storing = Storing()
    await storing.put(*(large_group(each) for each in FRAGMENTS))
    for _ in FRAGMENTS:
        await storing.end_first()

    await storing.put(*(group(each, "a") for each in FRAGMENTS))

    assert storing.fragments == list(FRAGMENTS)


async def test_what_is_put_next_does_not_overtake_several_groups_that_were_put_before() -> None:
    storing = Storing()

    storing.turns.put([group(None, "a", "b", is_whole=True), group(None, "c")])
    await storing.put(group(None, "d"))

    begun = [texts(each.messages) for each, _ in storing.under_way]
    assert begun == [[b"a", b"b"], [b"c"], [b"d"]]


@pytest.mark.spec("R2.4")
async def test_what_is_for_any_fragment_has_fewer_turns_than_what_is_spread() -> None:
    keyless, spread = Storing(), Storing()

    for _ in range(TURNS_MAX + 1):
        await keyless.put(group(None, *["x"] * (MANY_MESSAGES - 1)))
    await spread.put(*(large_group(each) for each in FRAGMENTS[:SPREAD_GROUPS]))

    assert len(keyless.under_way) == TURNS_MAX
    assert len(spread.under_way) == SPREAD_TURNS_MAX


async def test_columns_and_messages_are_not_mixed_and_keep_their_order() -> None:
    storing = Storing()
    await storing.put(*(large_group(each) for each in FRAGMENTS[:SPREAD_TURNS_MAX]))
    last = FRAGMENTS[-1]
    columns = [group(last, "b"), group(last, "c")]
    for each in columns:
        each.messages = PlainMessages([message.content for message in each.messages])

    for each in (group(last, "a"), *columns, group(last, "d")):
        await storing.put(each)
    for _ in range(SPREAD_TURNS_MAX):
        await storing.end_first()

    begun = [each.messages for each, _ in storing.under_way]
    assert [texts(each) for each in begun] == [[b"a"], [b"b", b"c"], [b"d"]]
    assert [type(each) for each in begun] == [list, PlainMessages, list]
