"""The head of a request, read so that nothing is left to interpretation.

Whoever stands between a client and this broker reads the same bytes. Wherever two readers could
disagree about where a request ends, the second half of it becomes a request that nobody sent
(smuggling). llhttp, the parser of Node.js, reads the lines here, with all its leniencies off: lines
end in CR LF, no line continues another, a name is followed by its colon at once, a body has one
length. The rest is ours:

Rule 1: a body is announced by one Content-Length, or by `chunked` and nothing else.
Rule 2: there is one Host (HTTP/1.0 may leave it out), and a target with a host names the same.
Rule 3: what decides who asks, or for what, is not said twice.
Rule 4: a path means what it says: no `.` or `..`, no empty segment, no backslash, no NUL, however
        they are encoded.
Rule 5: a head is bounded, and costs work in proportion to its bytes, however they are cut.
"""

import re
from typing import Final, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

HEAD_BYTES_MAX: Final = 96 * 1024  # properties of 64 KiB, a token of 8 KiB, and the rest
HEADERS_MAX: Final = 256
TARGET_LENGTH_MAX: Final = 8 * 1024
LENGTH_DIGITS_MAX: Final = 15

_END: Final = b"\r\n\r\n"
_TARGET: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._~\-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
_ABSOLUTE: Final = re.compile(r"https?://(?P<host>[^/?#]+)(?P<rest>/.*|)", re.IGNORECASE)
_SLASH: Final = "(?:/|%2[Ff])"
_DOTS: Final = r"(?:\.|%2[Ee]){1,2}"
_TRICK: Final = re.compile(
    rf"{_SLASH}{{2}}|{_SLASH}{_DOTS}(?:{_SLASH}|$)|\\|%5[Cc]|%(?![0-9A-Fa-f]{{2}})|%[01]|%7[Ff]"
)
# Given twice, these could be read as one or the other.
_ONCE: Final = frozenset(
    {
        "authorization",
        "brokerproperties",
        "content-length",
        "content-type",
        "expect",
        "host",
        "transfer-encoding",
    }
)
_NEVER_SERVED: Final = frozenset({"CONNECT", "TRACE"})


class RequestRefused(Exception):
    """The bytes are no request that is served here. The connection ends with the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class RequestHead(NamedTuple):
    """What a client asks for, before its body. Path and query are as they came, encoded.

    A tuple, because thousands a second are made.
    """

    method: str
    path: str
    query: str
    # Names as they were written: they may be those of a message's properties.
    headers: list[tuple[str, str]]
    # The same by lower-case name; values of one name are joined, as the standard says.
    fields: dict[str, str]
    body_length: int
    is_chunked: bool
    is_kept_alive: bool
    raw: bytes

    @property
    def host(self) -> str:
        """The host that the client means, with its port if it gave one; empty if it did not say."""
        return self.fields.get("host", "")

    @property
    def expects_continue(self) -> bool:
        """Whether the body comes only when it is asked for."""
        return "expect" in self.fields


class HeadReader:
    """Takes one head out of what comes, piece by piece.

    It hands llhttp the bytes up to the empty line and no more: what follows is the body or the
    next request, and is for others to judge.
    """

    def __init__(self) -> None:
        self._parser = HttpRequestParser(self)
        self._raw = bytearray()
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_whole = False

    @property
    def has_begun(self) -> bool:
        """Whether any of it has come."""
        return bool(self._raw)

    def take(self, buffer: bytearray) -> RequestHead | None:
        """Take what is there; return the head when it is whole. Raises `RequestRefused`."""
        room = HEAD_BYTES_MAX - len(self._raw)
        # The end may have begun in the piece before.
        begun = self._raw[1 - len(_END) :]
        end = (begun + buffer[:room]).find(_END)
        size = min(len(buffer), room) if end < 0 else end + len(_END) - len(begun)
        piece = bytes(buffer[:size])
        del buffer[:size]
        self._raw += piece
        self._parse(piece)
        if end >= 0:
            return self._head()
        if len(self._raw) >= HEAD_BYTES_MAX:
            raise RequestRefused(431, f"The head of a request may have {HEAD_BYTES_MAX} bytes.")
        return None

    # llhttp's calls

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        if len(self._headers) >= HEADERS_MAX:
            raise RequestRefused(431, f"A request may have {HEADERS_MAX} headers.")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that llhttp has seen the end, too."""
        self._is_whole = True

    def _parse(self, piece: bytes) -> None:
        try:
            self._parser.feed_data(piece)
        except HttpParserUpgrade:
            # Whether another protocol is spoken is decided when the head is read.
            return
        except HttpParserError as error:
            if isinstance(error.__context__, RequestRefused):
                raise error.__context__ from None
            raise RequestRefused(400, "This is no request of HTTP/1.1.") from None

    def _head(self) -> RequestHead:
        if not self._is_whole:
            raise RequestRefused(400, "The head of the request ends before it is whole.")
        method = self._parser.get_method().decode("latin-1")
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise RequestRefused(505, "Only HTTP/1.1 is served.")
        # llhttp overlooks further spaces, which others may take for an empty target.
        line = b"%b %b HTTP/" % (self._parser.get_method(), self._target)
        if not self._raw.removeprefix(b"\r\n").startswith(line):
            raise RequestRefused(400, "The first line is not a method, a target and a version.")
        if method in _NEVER_SERVED:
            raise RequestRefused(501, f"{method} is not served.")
        headers = [
            (name.decode("latin-1"), value.decode("latin-1").strip(" \t"))
            for name, value in self._headers
        ]
        fields = _by_name(headers)
        is_old = version == "1.0"
        path, query = _split_target(self._target.decode("latin-1"), fields, is_old=is_old)
        length, is_chunked = _body_framing(fields, is_old=is_old)
        if fields.get("expect", "100-continue").lower() != "100-continue":
            raise RequestRefused(417, "Only 100-continue can be expected.")
        connection = fields.get("connection", "").lower()
        is_kept_alive = not is_old and (
            not connection or "close" not in [each.strip() for each in connection.split(",")]
        )
        return RequestHead(
            method,
            path,
            query,
            headers,
            fields,
            length,
            is_chunked,
            is_kept_alive,
            bytes(self._raw),
        )


def _by_name(headers: list[tuple[str, str]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key not in fields:
            fields[key] = value
        elif key in _ONCE:
            raise RequestRefused(400, f"The header {key} comes twice.")
        else:
            fields[key] = f"{fields[key]}, {value}"
    return fields


def _split_target(target: str, fields: dict[str, str], *, is_old: bool) -> tuple[str, str]:
    """Return path and query, encoded as they came; see rules 2 and 4."""
    if len(target) > TARGET_LENGTH_MAX:
        raise RequestRefused(414, f"A target may have {TARGET_LENGTH_MAX} characters.")
    host = fields.get("host")
    if host is None and not is_old:
        raise RequestRefused(400, "The request has no Host.")
    if host and not _HOST.fullmatch(host):
        raise RequestRefused(400, "The Host is no host.")
    if not target.startswith("/"):
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None or absolute["host"].lower() != (host or "").lower():
            raise RequestRefused(
                400, "The target of the request is neither a path nor of its Host."
            )
        target = absolute["rest"] or "/"
    path, _, query = target.partition("?")
    if not _TARGET.fullmatch(target) or "#" in target or _TRICK.search(path):
        raise RequestRefused(400, "The path of the request could be read in two ways.")
    return path, query


def _body_framing(fields: dict[str, str], *, is_old: bool) -> tuple[int, bool]:
    """Return how long the body is, or that it says so in chunks; see rule 1."""
    length, coding = fields.get("content-length"), fields.get("transfer-encoding")
    if coding is not None:
        if length is not None or is_old:
            raise RequestRefused(400, "The length of the body is said in two ways.")
        if coding.lower() != "chunked":
            raise RequestRefused(501, "The only transfer coding is chunked.")
        return 0, True
    if length is None:
        return 0, False
    if not (length.isascii() and length.isdecimal() and len(length) <= LENGTH_DIGITS_MAX):
        raise RequestRefused(400, "The Content-Length is no length.")
    return int(length), False
