"""What the bulk door says of an entity."""

from pathlib import Path

import pytest

from bendybus.client.bulk_values import Fragment, Place
from bendybus.model.ids import sequence_number
from tests.flight.bulk_bus import aside, bulk_bus, numbered, plain


@pytest.mark.spec("R9.1")
@pytest.mark.parametrize(
    ("place", "sent_to"),
    [(Place("orders"), "orders"), (Place("news", "all"), "news")],
    ids=["queue", "subscription"],
)
async def test_a_fragment_reaches_from_its_oldest_message_to_the_next_one(
    tmp_path: Path, place: Place, sent_to: str
) -> None:
    async with bulk_bus(tmp_path) as bus:
        before = await aside(bus.client().describe, place)
        await bus.send(sent_to, plain(numbered(20)))
        after = await aside(bus.client().describe, place)

    [empty] = before.fragments
    assert (empty.first_sequence, empty.next_sequence, empty.messages) == (1, 1, 0)
    [filled] = after.fragments
    assert (filled.first_sequence, filled.next_sequence, filled.messages) == (1, 21, 20)
    assert not after.is_partitioned
    assert after.max_message_bytes == 256 * 1024


@pytest.mark.spec("R9.1")
async def test_every_fragment_of_a_partitioned_entity_is_told_with_its_store(
    tmp_path: Path,
) -> None:
    async with bulk_bus(tmp_path) as bus:
        for number in range(32):
            await bus.send("parts", plain([b"%d" % number]))
        told = await aside(bus.client().describe, Place("parts"))

    assert told.is_partitioned
    assert [each.fragment for each in told.fragments] == list(range(16))
    assert {each.store for each in told.fragments} == {0, 1, 2, 3}
    assert all(each.messages == 2 for each in told.fragments)
    assert told.fragments[3].next_sequence == sequence_number(3, 3)


async def test_a_store_that_is_away_is_told_and_its_numbers_are_not(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await bus.broker.stores[1].take_offline("a drill")
        told = await aside(bus.client().describe, Place("parts"))

    away = [each for each in told.fragments if each.store == 1]
    assert len(away) == 4
    assert all(each == Fragment(each.fragment, 1, is_online=False) for each in away)
    assert all(each.is_online for each in told.fragments if each.store != 1)


async def test_a_topic_and_an_entity_with_sessions_say_what_they_are(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        topic = await aside(bus.client().describe, Place("feed"))
        visits = await aside(bus.client().describe, Place("visits"))

    assert topic.is_topic
    assert not topic.requires_session
    assert visits.requires_session
    assert not visits.is_topic


async def test_dead_letters_are_a_queue_of_their_own(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await bus.send("orders", plain(numbered(3)))
        told = await aside(bus.client().describe, Place("orders", sub_queue="deadletter"))

    assert [each.messages for each in told.fragments] == [0]
