"""What is served must be servable: every other certificate is refused, with the reason."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bendybus.doors.certificate_file import FILE_BYTES_MAX, read_certificate
from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.model.errors import CertificateRefused


def read(files: AuthorityFolder, now: datetime | None = None) -> tuple[str, ...]:
    return read_certificate(files.server, files.server_key, now or datetime.now(UTC)).hosts


def test_a_good_certificate_says_its_hosts_and_its_end(files: AuthorityFolder) -> None:
    certificate = read_certificate(files.server, files.server_key, datetime.now(UTC))
    assert certificate.hosts == ("localhost", "127.0.0.1")
    assert timedelta(days=29) < certificate.ends_at - datetime.now(UTC) < timedelta(days=31)


def test_the_certificates_that_lead_to_the_authority_may_follow(files: AuthorityFolder) -> None:
    files.server.write_bytes(files.server.read_bytes() + files.authority.read_bytes())
    assert read(files) == ("localhost", "127.0.0.1")


@pytest.mark.parametrize(
    ("days", "message"), [(31, "ended on .*bendybus cert --renew"), (-1, "valid only from")]
)
def test_a_certificate_out_of_its_time_is_refused(
    files: AuthorityFolder, days: int, message: str
) -> None:
    with pytest.raises(CertificateRefused, match=message):
        read(files, datetime.now(UTC) + timedelta(days=days))


def test_a_key_of_another_certificate_is_refused(files: AuthorityFolder, tmp_path: Path) -> None:
    other = AuthorityFolder(tmp_path / "other")
    make_certificate(other, ["localhost"], days=30, now=datetime.now(UTC))
    with pytest.raises(CertificateRefused, match=r"server-key.pem does not belong to"):
        read_certificate(files.server, other.server_key, datetime.now(UTC))


def test_an_encrypted_key_is_refused_and_says_how_to_decrypt_it(files: AuthorityFolder) -> None:
    key = load_pem_private_key(files.server_key.read_bytes(), password=None)
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    files.server_key.write_bytes(encrypted)
    with pytest.raises(CertificateRefused, match=r"is encrypted.*openssl pkey"):
        read(files)


def test_a_certificate_that_names_no_host_is_refused(files: AuthorityFolder) -> None:
    key = generate_private_key(SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    bare = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, SHA256())
    )
    files.server.write_bytes(bare.public_bytes(Encoding.PEM))
    with pytest.raises(CertificateRefused, match="names no host"):
        read(files)


@pytest.mark.parametrize("content", [b"", b"no PEM", b"\xff" * 100])
def test_a_file_that_holds_something_else_is_refused(
    files: AuthorityFolder, content: bytes
) -> None:
    good = files.server.read_bytes()
    files.server.write_bytes(content)
    with pytest.raises(CertificateRefused, match=r"server.pem holds no certificate in PEM form"):
        read(files)
    files.server.write_bytes(good)
    files.server_key.write_bytes(content)
    with pytest.raises(CertificateRefused, match=r"server-key.pem holds no private key"):
        read(files)


def test_a_file_that_is_not_there_or_far_too_large_is_refused(files: AuthorityFolder) -> None:
    files.server_key.write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    with pytest.raises(CertificateRefused, match="too large to be a key"):
        read(files)
    files.server_key.unlink()
    with pytest.raises(CertificateRefused, match=r"cannot read the key .*: No such file"):
        read(files)
