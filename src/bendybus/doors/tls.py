"""TLS as the broker speaks it: from the files of a certificate, which may change at any time."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from bendybus.doors.certificate import Certificate
from bendybus.model.errors import CertificateRefused

# How often the files are looked at. Whoever renews a certificate does so days before it ends.
LOOK_SECONDS: Final = 2.0
# From when on the log says every day that the certificate ends.
_WARNED_BEFORE: Final = timedelta(days=14)
_WARNED_EVERY: Final = timedelta(days=1)
# Of TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 has nothing else.
_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"

_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """Return the time that certificates are checked against."""
    return datetime.now(UTC)


class NamedByCaller(ssl.SSLObject):
    """The TLS side of one connection, which keeps the host name that the caller asked for."""

    server_name: str | None = None


class ServerTls:
    """A certificate that is served, and looked for again when its files change.

    Connections that are open keep what they were shown; new ones get the certificate of now.
    """

    def __init__(self, cert: Path, key: Path, now: Callable[[], datetime] = utc_now) -> None:
        """Read the files. Raises `CertificateRefused`."""
        self._cert = cert
        self._key = key
        self._now = now
        self._seen = self._look()
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._warned_at: datetime | None = None
        self.certificate = self._check()

    def served(self, protocols: tuple[str, ...] = ()) -> Callable[[], ssl.SSLContext]:
        """Return what a door asks at every connection; `protocols` are those of ALPN."""
        self._contexts[protocols] = self._made(protocols)
        return lambda: self._contexts[protocols]

    def pem(self) -> tuple[bytes, bytes]:
        """Return the certificate and its key as the files have them, for who has its own TLS."""
        return self._cert.read_bytes(), self._key.read_bytes()

    def look_again(self) -> bool:
        """Take the certificate from the files if they have changed; say whether it was taken.

        Files that cannot be served leave the old certificate in place: a renewal writes two
        files, so for a moment they do not fit together.
        """
        seen = self._look()
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            certificate = self._check()
            contexts = {wanted: self._made(wanted) for wanted in self._contexts}
        except CertificateRefused as refusal:
            _log.warning("the old certificate stays in use: %s", refusal)
            return False
        self.certificate, self._contexts = certificate, contexts
        _log.info("a new certificate is in use, until %s", certificate.ends_at.isoformat())
        return True

    async def watch(self) -> None:
        """Look at the files now and then, without end."""
        while True:
            self.warn_of_end()
            await asyncio.sleep(LOOK_SECONDS)
            self.look_again()

    def warn_of_end(self) -> None:
        """Say once a day that the certificate ends soon: nobody is let in after that."""
        now, ends_at = self._now(), self.certificate.ends_at
        if ends_at - now > _WARNED_BEFORE:
            return
        if self._warned_at is None or now - self._warned_at >= _WARNED_EVERY:
            self._warned_at = now
            _log.warning(
                "the certificate %s ends on %s; renew it", self._cert, f"{ends_at:%Y-%m-%d}"
            )

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_fingerprint(path) for path in (self._cert, self._key))

    def _check(self) -> Certificate:
        from bendybus.doors.certificate_file import read_certificate

        return read_certificate(self._cert, self._key, self._now())

    def _made(self, protocols: tuple[str, ...]) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(_CIPHERS)
        # A client that asks for new keys again and again costs us far more than itself.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.sslobject_class = NamedByCaller
        context.sni_callback = _note_server_name
        if protocols:
            context.set_alpn_protocols(list(protocols))
        try:
            # The files may be others than those that were checked, so it is checked here, too.
            context.load_cert_chain(self._cert, self._key, password=_no_password)
        except OSError as error:
            raise CertificateRefused(
                f"the certificate {self._cert} cannot be served with the key {self._key}: {error}"
            ) from None
        return context


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _no_password() -> str:
    """Answer in place of OpenSSL's own question on the terminal."""
    return ""


def server_name(transport: asyncio.BaseTransport) -> str | None:
    """Return the host name that a client asked for in its handshake, if there was one."""
    connection = transport.get_extra_info("ssl_object")
    return connection.server_name if isinstance(connection, NamedByCaller) else None


def _note_server_name(
    connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext
) -> None:
    if isinstance(connection, NamedByCaller):
        connection.server_name = name
