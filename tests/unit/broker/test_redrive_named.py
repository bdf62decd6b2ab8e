"""redrive of messages that are named one by one, and each changed in its own way."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bendybus.broker.look import LOOKED_AT_MAX
from bendybus.model.given_edit import GivenEdit
from bendybus.model.ids import SubQueue
from bendybus.model.selection import Selection
from bendybus.testing.clock import ManualClock
from bendybus.testing.local_broker import local_broker
from tests.unit.broker.redriving_verbs import ENTITIES, KINDS, Redriving
from tests.unit.broker.topic_messages import note, seen

pytestmark = pytest.mark.spec("R9.2")
BOTH_KINDS = pytest.mark.parametrize("name", KINDS)


@pytest.fixture
async def letters(tmp_path: Path) -> AsyncIterator[Redriving]:
    clock = ManualClock()
    async with local_broker(tmp_path, ENTITIES, clock, stores=2) as broker:
        yield Redriving(broker, clock)


@BOTH_KINDS
async def test_only_those_that_are_named_go(letters: Redriving, name: str) -> None:
    dead = await letters.bury(name, [note(f"{number}") for number in range(20)])
    named = {each.sequence for each in dead[::3]}

    done = await letters.redrive(name, selection=Selection(sequences=frozenset(named)))

    assert (done.moved, done.refused) == (len(named), 0)
    assert {each.sequence for each in await letters.dead(name)} == {
        each.sequence for each in dead
    } - named
    again = await letters.redrive(name, selection=Selection(sequences=frozenset(named)))
    assert again.moved == 0


@BOTH_KINDS
async def test_each_is_changed_in_its_own_way(letters: Redriving, name: str) -> None:
    given = [note(f"{number}", {"number": number, "old": True}) for number in range(6)]
    dead = await letters.bury(name, given)
    edits = {
        each.sequence: GivenEdit(
            {"Label": f"label {seen(each)[0]}"},
            {"number": f"{seen(each)[1]['number']}0", "new": seen(each)[0]},
            ("old",),
            f"body {seen(each)[0]}".encode(),
        )
        for each in dead
        if seen(each)[0] in "024"
    }

    done = await letters.redrive(name, selection=Selection(sequences=frozenset(edits)), edits=edits)

    assert done.moved == 3
    # The number stays one, though it was given as a text.
    assert sorted(map(seen, await letters.alive(name))) == [
        (f"body {number}", {"number": number * 10, "new": f"{number}"}, f"label {number}")
        for number in (0, 2, 4)
    ]
    assert sorted(seen(each)[0] for each in await letters.dead(name)) == ["1", "3", "5"]


async def test_one_without_an_edit_of_its_own_goes_as_it_is(letters: Redriving) -> None:
    await letters.bury("orders", [note("a"), note("b")])
    [first, _] = await letters.dead("orders")
    done = await letters.redrive("orders", edits={first.sequence: GivenEdit(body=b"other")})
    assert done.moved == 2
    assert [seen(each)[0] for each in await letters.alive("orders")] == ["other", "b"]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (GivenEdit({"SessionId": "x" * 129}), "more than 128 characters"),
        (GivenEdit({"MessageId": None}), "cannot be without a value"),
        (GivenEdit(body=b"x" * 300_000), "bytes; the destination 'orders' takes"),
        (GivenEdit({"SessionId": "s", "PartitionKey": "k"}), "differs from its SessionId"),
        (GivenEdit(user={"huge": 2**70}), "cannot be written"),
    ],
)
async def test_an_edit_that_cannot_be_is_told_and_the_message_stays(
    letters: Redriving, edit: GivenEdit, why: str
) -> None:
    [dead] = await letters.bury("orders", [note("a")])
    done = await letters.redrive("orders", edits={dead.sequence: edit})
    assert (done.moved, done.refused) == (0, 1)
    assert why in (done.why or "")
    assert await letters.dead("orders") == [dead]


async def test_no_more_is_read_than_the_stretch_can_hold(
    letters: Redriving, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first, *_] = await letters.bury("orders", [note(f"{number}") for number in range(20)])
    store = letters.queue("orders").sub_queues[SubQueue.DEAD_LETTER].sources[0].store
    browse = store.browse
    asked: list[int] = []

    def counted(number: int, **wish: int) -> object:
        asked.append(wish["count_max"])
        return browse(number, **wish)  # type: ignore[arg-type]  # as it was asked

    monkeypatch.setattr(store, "browse", counted)
    await letters.ask_for("orders", first.sequence, first.sequence + 4)
    await letters.ask_for("orders", first.sequence, first.sequence + 10 * LOOKED_AT_MAX)
    assert asked == [5, LOOKED_AT_MAX]
