"""One request to the management side of a namespace, and its answer. Blocking."""

import http.client
import re
import ssl
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from bendybus.atom.entries import read_error
from bendybus.client.endpoint import utc_now
from bendybus.client.errors import (
    ClientError,
    ConnectionLost,
    InvalidOperation,
    NotTrusted,
    QuotaExceeded,
    error_of_status,
)
from bendybus.model.access import make_sas
from bendybus.model.connection_string import ConnectionString
from bendybus.model.errors import ArgumentInvalid
from bendybus.model.hosts import address_of, names_nothing

HTTP_PORT: Final = 5300
TIMEOUT_SECONDS: Final = 15.0
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
TRIES_MAX: Final = 4
PAUSE_SECONDS_MAX: Final = 10.0
_BUSY: Final = frozenset({429, 503})
_REFUSED_FROM: Final = 400
# Over HTTP a missing right is 401. This is a limit that is reached, or what the entity forbids.
_FORBIDDEN: Final = 403
_IN_CONFLICT: Final = "SubCode=40301"
_LIFETIME: Final = timedelta(minutes=5)
_SENTENCE: Final = re.compile(r"(?:SubCode=\d+\. )?(.*?)(?: TrackingId:.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, if it was no refusal."""

    status: int
    body: bytes
    # What the clock over there says, if it says so.
    date: datetime | None


@dataclass(frozen=True, slots=True)
class ManagementHttp:
    """Where a namespace answers HTTP, and what opens it."""

    url: str
    connection: ConnectionString
    tls: ssl.SSLContext | None = None
    seconds_max: float = TIMEOUT_SECONDS

    def exchange(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        tries: int = TRIES_MAX,
    ) -> Answer:
        """Ask and return the answer; ask again while the namespace is too busy to answer.

        Raises the `ClientError` that a refusal means, and `ConnectionLost`. A busy one has
        changed nothing, so whatever was asked can be asked again.
        """
        answer, pause = self._once(method, path, body, headers or {})
        while answer.status in _BUSY and (tries := tries - 1) > 0:
            time.sleep(pause)
            answer, pause = self._once(method, path, body, headers or {})
        if answer.status >= _REFUSED_FROM:
            raise _refusal(answer.status, answer.body, self.url)
        return answer

    def _once(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[Answer, float]:
        """Return the answer, and how long to wait before asking again."""
        connection = self._connect()
        sent = {
            "Authorization": self._token(path),
            "Connection": "close",
            **self._host(),
            **headers,
        }
        try:
            connection.request(method, urlsplit(self.url).path + path, body or None, sent)
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from None
        finally:
            connection.close()
        if len(content) > ANSWER_BYTES_MAX:
            raise ClientError(f"the answer of {self.url} has more than {ANSWER_BYTES_MAX} bytes")
        pause = _pause(answer.getheader("Retry-After"))
        return Answer(answer.status, content, _date(answer.getheader("Date"))), pause

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            tls = self.tls or ssl.create_default_context()
            return http.client.HTTPSConnection(
                host, parts.port, timeout=self.seconds_max, context=tls
            )
        return http.client.HTTPConnection(address_of(host), parts.port, timeout=self.seconds_max)

    def _host(self) -> dict[str, str]:
        """Say which namespace is meant, where the address alone does not."""
        parts = urlsplit(self.url)
        if names_nothing(parts.hostname or "") and not names_nothing(self.connection.host):
            return {"Host": self.connection.host}
        return {"Host": parts.netloc.rpartition("@")[2]}

    def _token(self, path: str) -> str:
        given = self.connection
        if given.token is not None:
            return given.token
        assert given.rule_name is not None, "a connection string has a token or a rule"
        assert given.key is not None, "a connection string has a token or a key"
        resource = self.url + path.partition("?")[0]
        return make_sas(resource, given.rule_name, given.key, utc_now() + _LIFETIME)

    def _lost(self, error: Exception) -> ClientError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return NotTrusted(
                f"the certificate of {self.url} cannot be trusted ({error.verify_message})"
            )
        reason = "it did not answer in time" if isinstance(error, TimeoutError) else error
        return ConnectionLost(f"no broker answers at {self.url} ({reason})")


def management_url(given: ConnectionString, url: str | None = None) -> str:
    """Return where a namespace answers HTTP: as given, or found by its connection string.

    Raises `ArgumentInvalid`.
    """
    if url is None:
        host = f"[{given.host}]" if ":" in given.host else given.host
        # Without the word that means no encryption, the official clients go to HTTPS, too.
        is_plain = given.use_development_emulator
        return f"http://{host}:{HTTP_PORT}" if is_plain else f"https://{host}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ArgumentInvalid(
            f"the management URL {url!r} must be like http://localhost:{HTTP_PORT}"
        )
    return url.rstrip("/")


def _date(text: str | None) -> datetime | None:
    try:
        return None if text is None else parsedate_to_datetime(text)
    except ValueError:
        return None


def _pause(retry_after: str | None) -> float:
    """Return how long the namespace wants to be left alone, within reason."""
    text = retry_after or ""
    seconds = float(text) if text.isascii() and text.isdecimal() else 1.0
    return min(seconds, PAUSE_SECONDS_MAX)


def _refusal(status: int, body: bytes, url: str) -> ClientError:
    detail = read_error(body) or ""
    # The numbers before and after the sentence are for machines.
    found = _SENTENCE.fullmatch(detail)
    text = found[1] if found else detail
    told = text or f"{url} answered {status}"
    if status == _FORBIDDEN:
        return (InvalidOperation if _IN_CONFLICT in detail else QuotaExceeded)(told)
    return error_of_status(status, told, None)
