"""Doors: who is let in, who is cut off on the threshold, and what is said when one cannot open."""

import asyncio
import errno
import socket
from collections.abc import Callable

import pytest

import bendybus.doors.door
from bendybus.doors.door import HANDSHAKES_MAX, Door, open_door
from bendybus.doors.local_authority import AuthorityFolder
from bendybus.doors.sockets import bound_sockets
from bendybus.model.errors import PortInUse, SettingInvalid
from tests.doors.tls_client import (
    SECONDS_MAX,
    Echo,
    calling,
    echoed,
    echoing,
    server_tls,
    trusting,
)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.001)


async def until_cut_off(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        try:
            while await reader.read(4096):
                continue
        except ConnectionResetError:
            pass


async def test_a_client_that_never_finishes_its_handshake_is_cut_off(
    files: AuthorityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bendybus.doors.door, "HANDSHAKE_SECONDS_MAX", 0.05)
    there = set[Echo]()
    async with echoing(server_tls(files), there) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(b"\x16\x03\x01")
        await until_cut_off(reader)
        writer.close()
        await until(lambda: not door._handshakes)
    assert there == set()


async def test_of_too_many_unfinished_handshakes_the_oldest_is_cut_off(
    files: AuthorityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bendybus.doors.door, "HANDSHAKES_MAX", 3)
    async with echoing(server_tls(files), set()) as door:
        slow = []
        for count in range(1, 4):
            slow.append(await asyncio.open_connection("127.0.0.1", door.port))
            await until(lambda count=count: len(door._handshakes) == count)  # type: ignore[misc]  # bound now
        async with calling(door.port, trusting(files)) as good:
            assert await echoed(*good) == b"hello"
        await until_cut_off(slow[0][0])
        await until(lambda: len(door._handshakes) == 2)
        assert not slow[1][0].at_eof()
        for _, writer in slow:
            writer.transport.abort()


async def test_hundreds_who_say_nothing_do_not_keep_others_out(files: AuthorityFolder) -> None:
    async with echoing(server_tls(files), set()) as door:
        silent = [
            await asyncio.open_connection("127.0.0.1", door.port)
            for _ in range(HANDSHAKES_MAX + 100)
        ]
        async with calling(door.port, trusting(files)) as good:
            assert await echoed(*good) == b"hello"
        assert len(door._handshakes) <= HANDSHAKES_MAX
        for _, writer in silent:
            writer.transport.abort()


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00", b"\xff" * 100]
)
async def test_bytes_that_are_no_tls_end_the_connection_and_harm_nobody(
    files: AuthorityFolder, data: bytes
) -> None:
    there = set[Echo]()
    async with echoing(server_tls(files), there) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(data)
        await until_cut_off(reader)
        writer.close()
        async with calling(door.port, trusting(files)) as good:
            assert await echoed(*good) == b"hello"


async def test_no_more_files_means_no_more_connections_for_a_while(
    files: AuthorityFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bendybus.doors.door, "_NO_FILES_SECONDS", 0.01)
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, iter([OSError(errno.EMFILE, "Too many open files")])

    async def failing_once(listening: socket.socket) -> tuple[socket.socket, object]:
        for failure in failures:
            raise failure
        return await accept(listening)

    monkeypatch.setattr(loop, "sock_accept", failing_once)
    async with (
        echoing(server_tls(files), set()) as door,
        calling(door.port, trusting(files)) as good,
    ):
        assert await echoed(*good) == b"hello"
    assert "cannot accept a connection" in caplog.text


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
async def test_a_closed_door_lets_its_port_go(files: AuthorityFolder, is_encrypted: bool) -> None:
    tls = server_tls(files) if is_encrypted else None
    async with echoing(tls, set()) as door:
        port = door.port
    for listening in bound_sockets("127.0.0.1", port, "--x-port"):
        listening.close()


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
async def test_a_taken_port_is_refused_and_the_option_named(
    files: AuthorityFolder, is_encrypted: bool
) -> None:
    tls = server_tls(files).served() if is_encrypted else None
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"port {port} on 127.0.0.1 .* with --amqps-port"):
            await open_door(Door("amqps", "127.0.0.1", port, tls), asyncio.Protocol)


def test_a_name_is_listened_on_at_each_of_its_addresses_with_one_port() -> None:
    sockets = bound_sockets("localhost", 0, "--x-port")
    try:
        assert len({each.getsockname()[1] for each in sockets}) == 1
        assert "127.0.0.1" in {each.getsockname()[0] for each in sockets}
    finally:
        for each in sockets:
            each.close()


def _resolved(*addresses: tuple[socket.AddressFamily, str]) -> Callable[..., list[object]]:
    """Resolve every name to these addresses."""
    return lambda *_, **__: [
        (family, socket.SOCK_STREAM, 0, "", (text, 0)) for family, text in addresses
    ]


def test_an_address_of_the_name_that_this_machine_lacks_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = (socket.AF_INET6, "2001:db8::1")
    monkeypatch.setattr(socket, "getaddrinfo", _resolved(lacking, (socket.AF_INET, "127.0.0.1")))
    [only] = bound_sockets("localhost", 0, "--x-port")
    assert only.getsockname()[0] == "127.0.0.1"
    only.close()


def test_if_one_address_is_taken_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        both = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "127.0.0.2")]
        monkeypatch.setattr(socket, "getaddrinfo", _resolved(*both))
        with pytest.raises(PortInUse):
            bound_sockets("localhost", port, "--x-port")
        monkeypatch.undo()
        for again in bound_sockets("127.0.0.1", port, "--x-port"):
            again.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    with pytest.raises(SettingInvalid, match=f"cannot listen on {host}:"):
        bound_sockets(host, 0, "--x-port")


def test_a_port_that_needs_a_right_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(SettingInvalid, match=r"CAP_NET_BIND_SERVICE.*--https-port"):
        bound_sockets("127.0.0.1", 443, "--https-port")
