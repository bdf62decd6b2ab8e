"""An authority of one's own for certificates, where no public one would give any.

Four files in a folder: the authority (`ca.pem`), which clients are told to trust; its key, which
signs and goes nowhere; the server's certificate and its key, which the broker serves.
"""

import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bendybus.doors.certificate_file import hosts_of
from bendybus.model.errors import ArgumentInvalid, CertificateRefused

AUTHORITY_DAYS: Final = 3650
# Clocks differ a little, and a certificate is used at once.
_EARLIER: Final = timedelta(hours=1)
_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.IGNORECASE)
_HOST_LENGTH_MAX: Final = 253


@dataclass(frozen=True, slots=True)
class AuthorityFolder:
    """Where the files are."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "ca.pem"

    @property
    def authority_key(self) -> Path:
        """What signs."""
        return self.folder / "ca-key.pem"

    @property
    def server(self) -> Path:
        """The certificate that the broker shows."""
        return self.folder / "server.pem"

    @property
    def server_key(self) -> Path:
        """Its key."""
        return self.folder / "server-key.pem"


@dataclass(frozen=True, slots=True)
class Made:
    """What was made: until when the server's certificate and the authority are valid."""

    hosts: tuple[str, ...]
    ends_at: datetime
    authority_ends_at: datetime
    is_new_authority: bool


def make_certificate(
    files: AuthorityFolder, hosts: Iterable[str], days: int, now: datetime
) -> Made:
    """Make the server's certificate, and before it the authority if there is none.

    Whatever was there of the server is replaced: ask before. Raises `ArgumentInvalid` for a host
    that cannot be one, `CertificateRefused` when the authority cannot sign.
    """
    names = [_general_name(host) for host in dict.fromkeys(hosts)]
    files.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_new = not files.authority.exists()
    if is_new:
        _make_authority(files, now)
    authority, signing_key = _read_authority(files, now)
    ends_at = min(now + timedelta(days=days), authority.not_valid_after_utc)
    key = generate_private_key(SECP256R1())
    certificate = (
        _begun(_name(_first_dns(names)), authority.subject, key, now - _EARLIER, ends_at)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .sign(signing_key, SHA256())
    )
    # A broker that looks between the two goes on with what it had.
    _put(files.server_key, _key_bytes(key), 0o600)
    _put(files.server, certificate.public_bytes(Encoding.PEM), 0o644)
    return Made(hosts_of(certificate), ends_at, authority.not_valid_after_utc, is_new)


def hosts_served(files: AuthorityFolder) -> tuple[str, ...]:
    """Return the hosts of the server's certificate, which may have ended."""
    return hosts_of(_read_certificate(files.server))


def _make_authority(files: AuthorityFolder, now: datetime) -> None:
    key = generate_private_key(SECP256R1())
    name = _name(f"Bendybus local authority {now:%Y-%m-%d}")
    ends_at = now + timedelta(days=AUTHORITY_DAYS)
    certificate = (
        _begun(name, name, key, now - _EARLIER, ends_at)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .sign(key, SHA256())
    )
    _put(files.authority_key, _key_bytes(key), 0o600)
    _put(files.authority, certificate.public_bytes(Encoding.PEM), 0o644)


def _read_authority(
    files: AuthorityFolder, now: datetime
) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    authority = _read_certificate(files.authority)
    again = f"remove {files.folder}, make both again, and trust the new {files.authority.name}"
    if now >= authority.not_valid_after_utc:
        ended = f"{authority.not_valid_after_utc:%Y-%m-%d}"
        raise CertificateRefused(f"the authority {files.authority} ended on {ended}; {again}")
    try:
        key = load_pem_private_key(files.authority_key.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificateRefused(f"{files.authority_key} holds no key to sign with") from None
    except OSError as error:
        raise CertificateRefused(
            f"cannot read the authority's key {files.authority_key}: {error.strerror}; {again}"
        ) from None
    if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != authority.public_key():
        raise CertificateRefused(
            f"the key {files.authority_key} does not belong to {files.authority}; {again}"
        )
    return authority, key


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError:
        raise CertificateRefused(f"the file {path} holds no certificate") from None
    except OSError as error:
        raise CertificateRefused(f"cannot read {path}: {error.strerror}") from None


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    begins_at: datetime,
    ends_at: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins_at.astimezone(UTC))
        .not_valid_after(ends_at.astimezone(UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _first_dns(names: "list[x509.GeneralName]") -> str:
    return next((str(name.value) for name in names if isinstance(name, x509.DNSName)), "bendybus")


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.removeprefix("*.").rstrip(".").split(".")
    if len(host) > _HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        raise ArgumentInvalid(
            f"{host!r} is neither a host name nor an address; write names as DNS has them"
        )
    return x509.DNSName(host.rstrip(".").lower())


def _key_bytes(key: EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _put(path: Path, content: bytes, mode: int) -> None:
    """Put a file in place whole; nobody can read a key in between."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
