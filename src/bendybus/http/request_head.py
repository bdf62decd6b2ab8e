"""The head of a request, read by a grammar that leaves nothing to interpretation.

Whoever stands between a client and this broker reads the same bytes. Wherever two readers could
disagree about where a request ends, the second half of it becomes a request that nobody sent
(smuggling). So everything that RFC 9112 merely tolerates is refused here:

Rule 1: lines end in CR LF, both of them; neither stands alone, and no line continues another.
Rule 2: a name is followed by its colon at once.
Rule 3: a body is announced once: by one Content-Length of digits, or by `chunked` and nothing
        else; never by both, never twice.
Rule 4: there is one Host (HTTP/1.0 may leave it out), and a target with a host names the same.
Rule 5: a path means what it says: no `.` or `..`, no empty segment, no backslash, no NUL, however
        they are encoded.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

HEAD_BYTES_MAX: Final = 96 * 1024  # properties of 64 KiB, a token of 8 KiB, and the rest
HEADERS_MAX: Final = 256
TARGET_LENGTH_MAX: Final = 8 * 1024
LENGTH_DIGITS_MAX: Final = 15

_FORBIDDEN: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n")
_REQUEST_LINE: Final = re.compile(r"([A-Z]{1,20}) ([!-~]+) HTTP/(\d)\.(\d)")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
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


def find_head(buffer: bytearray) -> bytes | None:
    """Return the head at the front of what came, with its empty line; None if it goes on.

    Raises `RequestRefused` as soon as it cannot become one.
    """
    end = buffer.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
    if end >= 0:
        return bytes(buffer[: end + 4])
    if len(buffer) >= HEAD_BYTES_MAX:
        raise RequestRefused(431, f"The head of a request may have {HEAD_BYTES_MAX} bytes.")
    # A last CR may still get its LF.
    judged = len(buffer) - buffer.endswith(b"\r")
    if buffer and (not 0x41 <= buffer[0] <= 0x5A or _FORBIDDEN.search(buffer, 0, judged)):
        raise RequestRefused(400, "This is not HTTP/1.1.")
    return None


def parse_head(raw: bytes) -> RequestHead:
    """Read a whole head. Raises `RequestRefused`."""
    if _FORBIDDEN.search(raw):
        raise RequestRefused(400, "The head of the request has a byte that no line may have.")
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    method, target, minor = _request_line(first)
    if len(lines) > HEADERS_MAX:
        raise RequestRefused(431, f"A request may have {HEADERS_MAX} headers.")
    headers: list[tuple[str, str]] = []
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = _checked_name(name)
        if not colon or not key:
            raise RequestRefused(400, "A line of the head is not a header.")
        value = value.strip(" \t")
        headers.append((name, value))
        if key in fields:
            if key in _ONCE:
                raise RequestRefused(400, f"The header {key} comes twice.")
            value = f"{fields[key]}, {value}"
        fields[key] = value
    path, query = _split_target(target, fields, minor)
    length, is_chunked = _body_framing(fields, minor)
    if fields.get("expect", "100-continue").lower() != "100-continue":
        raise RequestRefused(417, "Only 100-continue can be expected.")
    connection = fields.get("connection", "").lower()
    is_kept_alive = minor == 1 and (
        not connection or "close" not in [each.strip() for each in connection.split(",")]
    )
    return RequestHead(method, path, query, headers, fields, length, is_chunked, is_kept_alive, raw)


def _request_line(line: str) -> tuple[str, str, int]:
    matched = _REQUEST_LINE.fullmatch(line)
    if matched is None:
        raise RequestRefused(400, "The first line is not a request.")
    method, target, major, minor = matched.groups()
    if major != "1" or minor not in "01":
        raise RequestRefused(505, "Only HTTP/1.1 is served.")
    if method in _NEVER_SERVED:
        raise RequestRefused(501, f"{method} is not served.")
    if len(target) > TARGET_LENGTH_MAX:
        raise RequestRefused(414, f"A target may have {TARGET_LENGTH_MAX} characters.")
    return method, target, int(minor)


@lru_cache(maxsize=1024)
def _checked_name(name: str) -> str:
    """Return a header's name in lower case, or nothing if it cannot be one. Names repeat."""
    return name.lower() if _NAME.fullmatch(name) else ""


def _split_target(target: str, fields: dict[str, str], minor: int) -> tuple[str, str]:
    """Return path and query, encoded as they came; see rules 4 and 5."""
    host = fields.get("host")
    if host is None and minor == 1:
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
    if "#" in target or _TRICK.search(path):
        raise RequestRefused(400, "The path of the request could be read in two ways.")
    return path, query


def _body_framing(fields: dict[str, str], minor: int) -> tuple[int, bool]:
    """Return how long the body is, or that it says so in chunks; see rule 3."""
    length, coding = fields.get("content-length"), fields.get("transfer-encoding")
    if coding is not None:
        if length is not None or minor == 0:
            raise RequestRefused(400, "The length of the body is said in two ways.")
        if coding.lower() != "chunked":
            raise RequestRefused(501, "The only transfer coding is chunked.")
        return 0, True
    if length is None:
        return 0, False
    if not (length.isascii() and length.isdecimal() and len(length) <= LENGTH_DIGITS_MAX):
        raise RequestRefused(400, "The Content-Length is no length.")
    return int(length), False
