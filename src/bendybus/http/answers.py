"""An answer as bytes."""

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from bendybus.http.exchange import Answer

_STATUS_LINES: Final = {
    int(status): f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus
}
# Without a version: whoever looks for old ones should not be helped.
_SERVER_LINE: Final = "Server: Bendybus\r\n"
_WITHOUT_BODY: Final = frozenset({204, 304})


def encode_answer(answer: Answer, *, is_last: bool, has_body: bool) -> bytes:
    """Write an answer. Without a body it still says how long one would be (HEAD)."""
    lines = [_STATUS_LINES[answer.status], _date_line(int(time.time())), _SERVER_LINE]
    for name, value in answer.headers:
        # A line end here would let whoever chose the value write the rest of the answer.
        assert "\r" not in value and "\n" not in value, f"{name} would break out of its line"  # noqa: PT018 - one thought
        lines.append(f"{name}: {value}\r\n")
    if answer.status not in _WITHOUT_BODY:
        lines.append(f"Content-Length: {len(answer.body)}\r\n")
    lines.append("Connection: close\r\n\r\n" if is_last else "\r\n")
    head = "".join(lines).encode("latin-1")
    return head + answer.body if has_body and answer.body else head


@lru_cache(maxsize=2)
def _date_line(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\n"
