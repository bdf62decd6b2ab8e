"""Calling the management side of a running broker."""

import json
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.client import HTTPException
from re import DOTALL, search
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener
from xml.sax.saxutils import unescape

from bendybus.cli.failure import CommandFailed
from bendybus.model.access import make_sas
from bendybus.model.connection_string import ConnectionString, parse_connection_string
from bendybus.model.errors import ArgumentInvalid

HTTP_PORT: Final = 5300
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
TIMEOUT_SECONDS: Final = 15
TOKEN_LIFETIME: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Management:
    """Where the broker answers, and what opens it."""

    url: str
    connection: ConnectionString

    def call(self, method: str, path: str) -> object:
        """Make one call and return its JSON, or None. Raises `CommandFailed` saying what to do."""
        request = Request(  # noqa: S310 - the scheme is checked in `find_management`
            self.url + path, method=method, headers={"Authorization": self._token(path)}
        )
        # Proxies are for the way out; the broker is on one's own network.
        opener = build_opener(ProxyHandler({}))
        try:
            with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                body = answer.read(ANSWER_BYTES_MAX)
        except HTTPError as error:
            raise self._refused(error) from None
        except (URLError, HTTPException, TimeoutError, OSError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise CommandFailed(
                    f"the certificate of {self.url} cannot be trusted ({reason.verify_message});"
                    " name the file of its authority in SSL_CERT_FILE"
                ) from None
            raise CommandFailed(
                f"no broker answers at {self.url} ({reason}); start one with `bendybus serve`, or"
                " say where it is with --management-url"
            ) from None
        return json.loads(body) if body else None

    def _token(self, path: str) -> str:
        connection = self.connection
        if connection.token is not None:
            return connection.token
        assert connection.rule_name is not None, "a connection string has a token or a rule"
        assert connection.key is not None, "a connection string has a token or a key"
        expires_at = datetime.now(UTC) + TOKEN_LIFETIME
        return make_sas(self.url + path, connection.rule_name, connection.key, expires_at)

    def _refused(self, error: HTTPError) -> CommandFailed:
        with error:
            text = _detail(error.read(ANSWER_BYTES_MAX).decode(errors="replace"))
        if error.code == HTTPStatus.UNAUTHORIZED:
            return CommandFailed(
                f"the broker at {self.url} refused the key: {text} Give the connection string of"
                " a rule that may manage with --connection-string"
            )
        return CommandFailed(text or f"the broker at {self.url} answered {error.code}")


def find_management(connection_text: str, url: str | None) -> Management:
    """Find the broker by its connection string, or by its address where one is given."""
    try:
        connection = parse_connection_string(connection_text)
    except ArgumentInvalid as error:
        raise CommandFailed(f"{error.message}; the broker prints it when it starts") from None
    if url is None:
        host = f"[{connection.host}]" if ":" in connection.host else connection.host
        plain = f"http://{host}:{HTTP_PORT}"
        # Without the word that means no encryption, the official clients go to HTTPS, too.
        is_plain = connection.use_development_emulator
        return Management(plain if is_plain else f"https://{host}", connection)
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
        raise CommandFailed(f"the management URL {url!r} must be like http://localhost:{HTTP_PORT}")
    return Management(url.rstrip("/"), connection)


def _detail(body: str) -> str:
    """Take the sentence out of an error's body, without the numbers meant for machines."""
    found = search(r"<Detail>(?:SubCode=\d+\. )?(.*?)(?: TrackingId:.*)?</Detail>", body, DOTALL)
    return unescape(found[1]) if found else ""
