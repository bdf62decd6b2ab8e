"""A bound on request bodies, kept before anything is read of them."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from bendybus.http.problems import Problem, error_response

BODY_BYTES_MAX: Final = 64 * 1024


class BodyLimit:
    """Refuses a request whose body is too large, or comes in chunks of unknown number.

    The connection is closed with the refusal: the body still on its way is not wanted.
    """

    def __init__(self, app: ASGIApp, *, resource: str, now: Callable[[], datetime]) -> None:
        self._app = app
        self._resource = resource
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the refusal, or pass the request on."""
        refusal = _refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        problem, message = refusal
        response = error_response(
            problem,
            message,
            resource=self._resource,
            now=self._now(),
            headers={"Connection": "close"},
        )
        await response(scope, receive, send)


def _refusal(headers: Headers) -> tuple[Problem, str] | None:
    if "transfer-encoding" in headers:
        return Problem(411, 41100), "Say the length of the body in Content-Length."
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()) or int(length) > BODY_BYTES_MAX:
        return Problem(413, 41300), f"The body may have at most {BODY_BYTES_MAX} bytes."
    return None
