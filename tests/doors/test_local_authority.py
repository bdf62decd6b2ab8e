"""An authority of one's own: what it signs is trusted by whoever trusts it, and by nobody else."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bendybus.doors.certificate_file import read_certificate
from bendybus.doors.local_authority import (
    AUTHORITY_DAYS,
    AuthorityFolder,
    hosts_served,
    make_certificate,
)
from bendybus.model.errors import ArgumentInvalid, CertificateRefused

NOW = datetime.now(UTC).replace(microsecond=0)


def shake_hands(files: AuthorityFolder, host: str, *, is_strict: bool = False) -> str | None:
    """Let a client that trusts the authority call the server by a name; return why it would not."""
    client_context = ssl.create_default_context(cafile=str(files.authority))
    if is_strict:
        client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(files.server, files.server_key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    assert client.version() is not None
    return None


@pytest.mark.parametrize("is_strict", [False, True], ids=["usual", "strict"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "a.example.org"])
def test_a_client_that_trusts_the_authority_takes_every_host(
    tmp_path: Path, host: str, is_strict: bool
) -> None:
    files = AuthorityFolder(tmp_path)
    make_certificate(files, ["localhost", "127.0.0.1", "::1", "*.example.org"], 30, NOW)
    assert shake_hands(files, host, is_strict=is_strict) is None


def test_a_host_that_was_not_named_is_not_taken(files: AuthorityFolder) -> None:
    reason = shake_hands(files, "bus.example.org")
    assert reason is not None
    assert "Hostname mismatch" in reason


def test_another_authority_is_not_trusted(files: AuthorityFolder, tmp_path: Path) -> None:
    other = AuthorityFolder(tmp_path / "other")
    make_certificate(other, ["localhost"], 30, NOW)
    files.authority.write_bytes(other.authority.read_bytes())
    reason = shake_hands(files, "localhost")
    assert reason is not None


def test_keys_can_be_read_by_their_owner_only(files: AuthorityFolder) -> None:
    for key in (files.authority_key, files.server_key):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert {path.name for path in files.folder.iterdir()} == {
        "ca.pem",
        "ca-key.pem",
        "server.pem",
        "server-key.pem",
    }


def test_a_second_certificate_has_the_same_authority_and_another_key(
    files: AuthorityFolder,
) -> None:
    authority, key = files.authority.read_bytes(), files.server_key.read_bytes()
    made = make_certificate(files, (*hosts_served(files), "more.example.org"), 60, NOW)
    assert not made.is_new_authority
    assert made.hosts == ("localhost", "more.example.org", "127.0.0.1")
    assert files.authority.read_bytes() == authority
    assert files.server_key.read_bytes() != key
    assert shake_hands(files, "more.example.org") is None
    assert made.ends_at == read_certificate(files.server, files.server_key, NOW).ends_at


def test_no_certificate_outlives_its_authority(files: AuthorityFolder) -> None:
    made = make_certificate(files, ["localhost"], AUTHORITY_DAYS + 100, NOW)
    assert made.ends_at == made.authority_ends_at


def test_an_authority_that_ended_does_not_sign(files: AuthorityFolder) -> None:
    later = NOW + timedelta(days=AUTHORITY_DAYS + 1)
    with pytest.raises(CertificateRefused, match=r"ca.pem ended on .*trust the new ca.pem"):
        make_certificate(files, ["localhost"], 30, later)


def test_an_authority_without_its_key_does_not_sign(files: AuthorityFolder) -> None:
    served = files.server.read_bytes()
    files.authority_key.write_bytes(files.server_key.read_bytes())
    with pytest.raises(CertificateRefused, match=r"ca-key.pem does not belong to"):
        make_certificate(files, ["localhost"], 30, NOW)
    files.authority_key.write_bytes(b"something else")
    with pytest.raises(CertificateRefused, match="holds no key to sign with"):
        make_certificate(files, ["localhost"], 30, NOW)
    files.authority_key.unlink()
    with pytest.raises(CertificateRefused, match="cannot read the authority's key"):
        make_certificate(files, ["localhost"], 30, NOW)
    assert files.server.read_bytes() == served


def test_a_certificate_that_cannot_be_read_has_no_hosts_to_keep(files: AuthorityFolder) -> None:
    files.server.write_bytes(b"something else")
    with pytest.raises(CertificateRefused, match=r"server\.pem holds no certificate"):
        hosts_served(files)
    files.server.unlink()
    with pytest.raises(CertificateRefused, match=r"cannot read .*server.pem: No such file"):
        hosts_served(files)


@pytest.mark.parametrize(
    "host", ["", "two words", "https://localhost", "-x", "a..b", "müller.example", "x" * 64, "*"]
)
def test_what_cannot_be_a_host_is_refused_and_nothing_made(tmp_path: Path, host: str) -> None:
    files = AuthorityFolder(tmp_path / "tls")
    with pytest.raises(ArgumentInvalid, match="neither a host name nor an address"):
        make_certificate(files, ["localhost", host], 30, NOW)
    assert not files.folder.exists()
