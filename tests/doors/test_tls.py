"""TLS as it is served: what is spoken, who is called, and certificates that change in use."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.doors.tls import ServerTls, server_name
from bendybus.model.errors import CertificateRefused
from tests.doors.tls_client import Echo, calling, echoed, echoing, serial_of, server_tls, trusting


def renew(files: AuthorityFolder) -> None:
    make_certificate(files, ["localhost"], days=60, now=datetime.now(UTC))


async def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on(
    files: AuthorityFolder,
) -> None:
    tls, there = server_tls(files), set[Echo]()
    async with echoing(tls, there) as door, calling(door.port, trusting(files)) as old:
        renew(files)
        assert tls.look_again()
        async with calling(door.port, trusting(files)) as new:
            assert serial_of(new[1]) != serial_of(old[1])
            assert await echoed(*new) == b"hello"
        assert await echoed(*old) == b"hello"


def test_files_that_did_not_change_are_not_read_again(files: AuthorityFolder) -> None:
    tls = server_tls(files)
    context = (served := tls.served())()
    assert not tls.look_again()
    assert served() is context


@pytest.mark.parametrize("spoil", ["half renewed", "garbage", "gone"])
def test_files_that_cannot_be_served_leave_the_old_certificate_in_use(
    files: AuthorityFolder, spoil: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "bendybus")
    tls = server_tls(files)
    served = tls.served()
    context, certificate = served(), tls.certificate
    key = files.server_key.read_bytes()
    if spoil == "half renewed":
        renew(files)
        files.server_key.write_bytes(key)
    elif spoil == "garbage":
        files.server.write_bytes(b"x")
    else:
        files.server.unlink()

    assert not tls.look_again()

    assert (served(), tls.certificate) == (context, certificate)
    assert not tls.look_again()
    assert caplog.text.count("the old certificate stays in use") == 1
    # And the rest of the renewal is taken up when it comes.
    renew(files)
    assert tls.look_again()
    assert served() is not context


@pytest.mark.parametrize(("days_left", "warnings"), [(20, 0), (13, 1), (-1, 1)])
def test_the_end_of_a_certificate_is_announced_once_a_day(
    files: AuthorityFolder, days_left: int, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    times = [datetime.now(UTC)]
    tls = ServerTls(files.server, files.server_key, lambda: times[-1])
    times.append(tls.certificate.ends_at - timedelta(days=days_left))

    tls.warn_of_end()
    tls.warn_of_end()
    assert caplog.text.count("server.pem ends on") == warnings

    times.append(times[-1] + timedelta(days=1))
    tls.warn_of_end()
    assert caplog.text.count("server.pem ends on") == 2 * warnings


def test_a_start_with_files_that_cannot_be_served_is_refused(files: AuthorityFolder) -> None:
    files.server.unlink()
    with pytest.raises(CertificateRefused):
        server_tls(files)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_the_name_that_a_client_calls_is_known(files: AuthorityFolder, host: str) -> None:
    there = set[Echo]()
    async with (
        echoing(server_tls(files), there) as door,
        calling(door.port, trusting(files), host) as connection,
    ):
        await echoed(*connection)
        # Addresses are no names: clients do not send them.
        assert [server_name(each.transport) for each in there] == [
            None if host[0].isdigit() else host
        ]


async def test_who_comes_without_tls_called_nobody() -> None:
    there = set[Echo]()
    async with echoing(None, there) as door:
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        assert await echoed(reader, writer) == b"hello"
        assert [server_name(each.transport) for each in there] == [None]
        writer.transport.abort()


async def test_http_is_agreed_on_with_clients_that_ask(files: AuthorityFolder) -> None:
    there = set[Echo]()
    asking = trusting(files)
    asking.set_alpn_protocols(["h2", "http/1.1"])
    async with (
        echoing(server_tls(files), there, ("http/1.1",)) as door,
        calling(door.port, asking) as (_, writer),
    ):
        agreed: ssl.SSLObject = writer.get_extra_info("ssl_object")
        assert agreed.selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_current_versions_are_spoken(
    files: AuthorityFolder, version: ssl.TLSVersion
) -> None:
    context = trusting(files)
    context.minimum_version = context.maximum_version = version
    async with echoing(server_tls(files), set()) as door, calling(door.port, context) as both:
        assert await echoed(*both) == b"hello"
        spoken: ssl.SSLObject = both[1].get_extra_info("ssl_object")
        [name, _, _] = spoken.cipher() or ("", "", 0)
        assert "GCM" in name or "CHACHA20" in name


def old_version(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1


def weak_ciphers(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.*deprecated:DeprecationWarning")
@pytest.mark.parametrize("weaken", [old_version, weak_ciphers])
async def test_what_is_weak_is_not_spoken(
    files: AuthorityFolder, weaken: Callable[[ssl.SSLContext], None]
) -> None:
    context = trusting(files)
    context.set_ciphers("ALL:@SECLEVEL=0")
    weaken(context)
    async with echoing(server_tls(files), set()) as door:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            async with calling(door.port, context):
                pass
