"""Reserving through the bulk door: what is reserved reads back the same, for its reader alone."""

from pathlib import Path

import pytest

from bendybus.broker.access_keys import new_key
from bendybus.client import errors
from bendybus.client.bulk_values import Place, Positions
from bendybus.flight.peers import cut_off, peers_at
from bendybus.model.access import AccessRule, Right
from bendybus.testing.local_broker import ROOT_RULE
from tests.flight.bulk_bus import (
    PLACES,
    BulkBus,
    aside,
    bodies_of,
    bulk_bus,
    numbered,
    plain,
    rows_of,
)

LISTEN = AccessRule("listen", new_key(), frozenset({Right.LISTEN}))


async def filled(bus: BulkBus, place: Place, count: int) -> list[bytes]:
    """Send messages, some at a time, so that every fragment gets some."""
    bodies = numbered(count)
    for at in range(0, count, 10):
        await bus.send(place.entity, plain(bodies[at : at + 10]))
    return bodies


def span(start: dict[int, int], end: dict[int, int]) -> list[Positions]:
    """Return all that lies between two offsets."""
    return [
        Positions(fragment, start.get(fragment, 0), until)
        for fragment, until in end.items()
        if start.get(fragment, 0) < until
    ]


@pytest.mark.spec("R9.3")
@pytest.mark.parametrize("place", PLACES, ids=str)
async def test_what_is_reserved_reads_back_the_same_until_it_is_committed(
    tmp_path: Path, place: Place
) -> None:
    async with bulk_bus(tmp_path) as bus:
        bodies = await filled(bus, place, 400)
        client = bus.client()
        opened = await aside(client.open_reader, place, "capture")
        start = opened.committed
        reserved = await aside(
            client.reserve, place, "capture", opened.token, start, messages_max=150
        )
        again = await aside(client.reserve, place, "capture", opened.token, start, messages_max=150)
        assert again.end == reserved.end
        parts = span(start, reserved.end)
        once, twice = [
            await aside(
                lambda: rows_of(client.read_reserved(place, "capture", opened.token, parts))
            )
            for _ in range(2)
        ]
        assert once == twice
        assert len(once) == reserved.messages
        assert sum(reserved.lag.values()) == 400 - reserved.messages
        assert {row["state"] for row in once} == {"reserved"}

        await aside(client.commit, place, "capture", opened.token, reserved.end)
        left = await bus.rows(place)
        assert sorted(bodies_of(once) + bodies_of(left)) == sorted(bodies)
        with pytest.raises(errors.ClientError) as refused:
            await aside(
                lambda: rows_of(client.read_reserved(place, "capture", opened.token, parts))
            )
        assert refused.value.condition == "reader-lost"


async def test_a_second_query_of_the_same_name_is_refused(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path) as bus:
        await aside(bus.client().open_reader, place, "capture")
        with pytest.raises(errors.ClientError, match="in use by another query") as refused:
            await aside(bus.client().open_reader, place, "capture")
        assert refused.value.condition == "reader-in-use"
        bus.clock.advance(61)
        await aside(bus.client().open_reader, place, "capture")


async def test_what_is_given_back_while_it_is_read_fails_the_read(tmp_path: Path) -> None:
    place = Place("orders")
    async with bulk_bus(tmp_path) as bus:
        for _ in range(40):
            await bus.send("orders", plain(numbered(10, size=100_000)))
        client = bus.client()
        token = (await aside(client.open_reader, place, "capture")).token
        reserved = await aside(client.reserve, place, "capture", token, {})
        parts = span({}, reserved.end)
        reading = client.read_reserved(place, "capture", token, parts, batch_rows=5)
        await aside(next, reading)
        await aside(bus.client().give_back, place, "capture")
        with pytest.raises(errors.ClientError) as refused:
            await aside(rows_of, reading)
    assert refused.value.condition == "reader-lost"


async def test_a_reader_that_was_closed_is_opened_by_another_at_once(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, place, 40)
        first = bus.client()
        opened = await aside(first.open_reader, place, "capture")
        reserved = await aside(first.reserve, place, "capture", opened.token, {})
        await aside(first.close_reader, place, "capture", opened.token)
        second = await aside(bus.client().open_reader, place, "capture")
        again = await aside(bus.client().reserve, place, "capture", second.token, {})

    assert second.token != opened.token
    assert (again.end, again.messages) == (reserved.end, reserved.messages)


async def test_naming_no_message_tells_how_far_the_reservations_go(tmp_path: Path) -> None:
    place = Place("orders")
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, place, 20)
        client = bus.client()
        token = (await aside(client.open_reader, place, "triage")).token
        chosen = await aside(client.reserve_chosen, place, "triage", token, {0: [3]})
        none = await aside(client.reserve_chosen, place, "triage", token, {0: []})

    assert none.end == chosen.end
    assert none.messages == 0


async def test_who_brings_its_own_token_comes_back_at_once(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path) as bus:
        for _ in range(2):
            opened = await aside(bus.client().open_reader, place, "capture", "my-own-token")
            assert opened.token == "my-own-token"


async def test_chosen_messages_are_reserved_and_no_others(tmp_path: Path) -> None:
    place = Place("orders")
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, place, 20)
        client = bus.client()
        token = (await aside(client.open_reader, place, "triage")).token
        reserved = await aside(client.reserve_chosen, place, "triage", token, {0: [3, 5, 99]})
        parts = span({}, reserved.end)
        rows = await aside(lambda: rows_of(client.read_reserved(place, "triage", token, parts)))

    assert [row["sequence_number"] for row in rows] == [3, 5]


async def test_only_who_manages_releases_what_another_has_reserved(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path, rules=(ROOT_RULE, LISTEN)) as bus:
        await filled(bus, place, 100)
        listener = bus.client(LISTEN)
        opened = await aside(listener.open_reader, place, "capture")
        await aside(listener.reserve, place, "capture", opened.token, {})
        [told] = await aside(listener.readers, place)
        assert (told["name"], told["messages"], told["is_active"]) == ("capture", 100, True)

        with pytest.raises(errors.Unauthorized, match="'Manage' claim"):
            await aside(bus.client(LISTEN).give_back, place, "capture")
        assert await aside(bus.client().give_back, place, "capture") == 100

        assert await aside(listener.readers, place) == []
        with pytest.raises(errors.ClientError) as refused:
            await aside(listener.reserve, place, "capture", opened.token, {})
        assert refused.value.condition == "reader-lost"


async def test_a_reader_gives_its_own_back_without_that_right(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path, rules=(ROOT_RULE, LISTEN)) as bus:
        await filled(bus, place, 100)
        listener = bus.client(LISTEN)
        token = (await aside(listener.open_reader, place, "capture")).token
        await aside(listener.reserve, place, "capture", token, {}, messages_max=30)
        assert await aside(listener.give_back, place, "capture", token) >= 30


async def test_a_store_that_is_away_is_named_or_skipped(tmp_path: Path) -> None:
    place = Place("parts")
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, place, 320)
        client = bus.client()
        token = (await aside(client.open_reader, place, "capture")).token
        first = await aside(client.reserve, place, "capture", token, {})
        await bus.broker.stores[1].take_offline("a drill")
        with pytest.raises(errors.ServerBusy, match=r"store 1, which holds fragment"):
            await aside(client.reserve, place, "capture", token, first.end)
        more = await aside(
            lambda: client.reserve(place, "capture", token, first.end, skip_offline=True)
        )
        assert len(more.skipped) == 4
        parts = span({}, first.end)
        with pytest.raises(errors.ServerBusy, match=r"store 1, which holds fragment"):
            await aside(lambda: rows_of(client.read_reserved(place, "capture", token, parts)))
        reading = client.read_reserved(place, "capture", token, parts, skip_offline=True)
        rows = await aside(rows_of, reading)

    assert set(reading.skipped) == set(more.skipped)
    assert not set(reading.skipped) & {row["fragment"] for row in rows}
    assert len(rows) == 320 - 80


async def test_who_is_cut_off_in_the_middle_reads_the_rest_once(tmp_path: Path) -> None:
    place = Place("orders")
    async with bulk_bus(tmp_path) as bus:
        for _ in range(40):
            await bus.send("orders", plain(numbered(10, size=100_000)))
        client = bus.client(patience_seconds=30)
        token = (await aside(client.open_reader, place, "capture")).token
        reserved = await aside(client.reserve, place, "capture", token, {})
        assert reserved.end[0] > 1, "more than one position is the point"
        reading = client.read_reserved(
            place, "capture", token, span({}, reserved.end), batch_rows=7
        )
        rows = (await aside(next, reading)).to_pylist()
        ports = frozenset(bus.door.ports.values())
        await aside(lambda: cut_off(ports, peers_at(ports)))
        rows += await aside(rows_of, reading)

    assert [row["sequence_number"] for row in rows] == list(range(1, 401))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"start": {"x": 1}}, "numbers by fragment"),
        ({"start": [1]}, "numbers by fragment"),
        ({"start": {"99": 1}}, "no fragment 99"),
        ({"messages_max": 0}, "'messages_max' must be a whole number from 1"),
        ({"sequences": {"0": 3}}, "lists of numbers by fragment"),
        ({"sequences": {"0": [3]}, "messages_max": 3}, "nothing else is chosen by"),
        ({"token": None}, "'token' must be a text"),
        ({"reader": ""}, "'reader' must be a text"),
    ],
)
async def test_a_wish_that_means_nothing_is_refused(
    tmp_path: Path, body: dict[str, object], text: str
) -> None:
    async with bulk_bus(tmp_path) as bus:
        wish = {"reader": "capture", "token": "t", **body}
        with pytest.raises(errors.ArgumentInvalid) as refused:
            await aside(bus.client().ask, "reserve", Place("orders"), wish)
    assert text in str(refused.value)
