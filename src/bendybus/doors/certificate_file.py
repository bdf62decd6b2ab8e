"""A certificate with its key, read from files and checked before anyone sees it."""

from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from bendybus.doors.certificate import Certificate
from bendybus.model.errors import CertificateRefused

FILE_BYTES_MAX: Final = 1024 * 1024


def read_certificate(cert: Path, key: Path, now: datetime) -> Certificate:
    """Read both files and check that they can be served now. Raises `CertificateRefused`."""
    leaf = _read_leaf(cert)
    if now < leaf.not_valid_before_utc:
        raise CertificateRefused(
            f"the certificate {cert} is valid only from {_shown(leaf.not_valid_before_utc)} on;"
            " check the clock of this machine, or take another certificate"
        )
    if now > leaf.not_valid_after_utc:
        raise CertificateRefused(
            f"the certificate {cert} ended on {_shown(leaf.not_valid_after_utc)}; renew it (one"
            " made by bendybus cert: with bendybus cert --renew)"
        )
    hosts = hosts_of(leaf)
    if not hosts:
        raise CertificateRefused(
            f"the certificate {cert} names no host (no subject alternative name), so no client"
            " would take it"
        )
    if _public_bytes(leaf) != _public_bytes(_read_key(key)):
        raise CertificateRefused(
            f"the key {key} does not belong to the certificate {cert}; give the two that were"
            " made together (those of bendybus cert: make both again with bendybus cert --renew)"
        )
    return Certificate(hosts, leaf.not_valid_after_utc)


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Return the names and addresses that a certificate is good for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *map(str, addresses))


def _read_leaf(path: Path) -> x509.Certificate:
    """Read the first certificate of the file: the others lead from it to its authority."""
    try:
        return x509.load_pem_x509_certificates(_read(path, "certificate"))[0]
    except ValueError:
        raise CertificateRefused(
            f"the file {path} holds no certificate in PEM form"
            " (-----BEGIN CERTIFICATE-----); give one, the server's own first"
        ) from None


def _read_key(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(_read(path, "key"), password=None)
    except TypeError:
        # What the library raises when a key wants a password.
        raise CertificateRefused(
            f"the key {path} is encrypted, and nobody could type its password when the broker"
            " restarts; store it decrypted with file mode 600"
            " (openssl pkey -in KEY -out NEW_KEY)"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateRefused(
            f"the file {path} holds no private key in PEM form (-----BEGIN PRIVATE KEY-----)"
        ) from None


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CertificateRefused(f"cannot read the {what} {path}: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise CertificateRefused(f"the file {path} is too large to be a {what}")
    return content


def _public_bytes(owner: x509.Certificate | PrivateKeyTypes) -> bytes:
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
