"""What one client can take from others at the bulk door: so much, and no more."""

import socket
import time
from pathlib import Path

import pytest

from bendybus.client import errors
from bendybus.client.bulk_values import Place
from bendybus.flight.calls import Calls
from bendybus.flight.doorkeeper import Doorkeeper
from bendybus.flight.peers import cut_off, parse_peer, peers_at
from tests.flight.bulk_bus import BulkBus, aside, bulk_bus, numbered, plain, rows_of, until

STOP_SECONDS_MAX = 20


async def filled(bus: BulkBus, megabytes: int) -> None:
    """Send more than lies in the buffers between a broker and its client."""
    for _ in range(megabytes):
        await bus.send("orders", plain(numbered(10, size=100_000)))


async def test_one_stream_more_than_there_is_room_for_is_told_to_come_later(
    tmp_path: Path,
) -> None:
    async with bulk_bus(tmp_path, calls=Calls(streams_max=2)) as bus:
        await filled(bus, 40)
        slow = [bus.client().read(Place("orders"), batch_rows=5) for _ in range(2)]
        for each in slow:
            await aside(next, each)
        with pytest.raises(errors.ServerBusy, match="2; try again later"):
            await aside(next, bus.client().read(Place("orders")))
        # Others than streams go on.
        await aside(bus.client().describe, Place("orders"))
        assert len(await aside(rows_of, slow[0])) == 395
        await until(lambda: bus.door.calls.figures().streams == 1)
        assert len(await bus.rows(Place("orders"))) == 400


async def test_who_stops_reading_is_cut_off_in_the_end(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, 40)
        ports = frozenset(bus.door.ports.values())
        stuck = bus.client().read(Place("orders"), batch_rows=5)
        await aside(next, stuck)
        [call] = bus.door.calls.under_way()
        await until(lambda: call.waits_since is not None)
        keeper = Doorkeeper(bus.door.calls, idle_seconds_max=3600)
        await aside(keeper.look, ports)
        assert bus.door.calls.figures().streams == 1

        keeper = Doorkeeper(bus.door.calls, idle_seconds_max=-1)
        while bus.door.calls.figures().streams:
            await aside(keeper.look, ports)
        with pytest.raises(errors.ConnectionLost):
            await aside(rows_of, stuck)


async def test_who_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, 40)
        reading = bus.client(patience_seconds=30).read(Place("orders"), batch_rows=5)
        first = await aside(next, reading)
        ports = frozenset(bus.door.ports.values())
        await aside(lambda: cut_off(ports, peers_at(ports)))
        rows = [*first.to_pylist(), *await aside(rows_of, reading)]

    assert [row["sequence_number"] for row in rows] == list(range(1, 401))


async def test_who_comes_and_asks_for_nothing_is_put_out(tmp_path: Path) -> None:
    async with bulk_bus(tmp_path) as bus:
        ports = frozenset(bus.door.ports.values())
        client = bus.client()
        await aside(client.describe, Place("orders"))
        [port] = ports
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            await until(lambda: stranger.getsockname() in peers_at(ports))
            patient, strict = Doorkeeper(bus.door.calls), Doorkeeper(bus.door.calls, 3600, -1)
            await aside(patient.look, ports)
            assert stranger.getsockname() in peers_at(ports)
            await aside(strict.look, ports)
            await until(lambda: stranger.getsockname() not in peers_at(ports))
        # Who has shown a token stays, however long it asks for nothing.
        assert len(peers_at(ports)) == 1
        await aside(client.describe, Place("orders"))


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:127.0.0.1:50912", ("127.0.0.1", 50912)),
        ("ipv6:%5B::1%5D:50912", ("::1", 50912)),
        ("ipv6:%5B::ffff:10.0.0.7%5D:1", ("10.0.0.7", 1)),
        ("unix:", ("", 0)),
    ],
)
def test_who_is_at_the_other_end_is_read_as_grpc_writes_it(
    text: str, peer: tuple[str, int]
) -> None:
    assert parse_peer(text) == peer


async def test_a_stream_ends_soon_when_the_broker_does(tmp_path: Path) -> None:
    began = time.monotonic()
    async with bulk_bus(tmp_path) as bus:
        await filled(bus, 40)
        stuck = bus.client().read(Place("orders"), batch_rows=5)
        await aside(next, stuck)
    assert time.monotonic() - began < STOP_SECONDS_MAX
    with pytest.raises((errors.ConnectionLost, errors.ServerBusy)):
        rows_of(stuck)
