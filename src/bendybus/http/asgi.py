"""Requests for the Starlette application: whole bodies in, whole answers out."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import unquote

from bendybus.http.exchange import Admission, Answer, Request

Message = MutableMapping[str, Any]
AsgiApp = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

# Descriptions of entities are small; see the limits of their parts.
BODY_BYTES_MAX: Final = 256 * 1024
# What the server says itself.
_OF_THE_SERVER: Final = frozenset({b"content-length", b"date", b"connection", b"transfer-encoding"})


class AsgiBridge:
    """Lets an ASGI application answer."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self.admission: Final = Admission(BODY_BYTES_MAX, self.answer)

    async def answer(self, request: Request) -> Answer:
        """Run the application for one request."""
        body: Message | None = {"type": "http.request", "body": request.body, "more_body": False}
        started: Message = {}
        parts: list[bytes] = []

        async def receive() -> Message:
            nonlocal body
            if body is not None:
                message, body = body, None
                return message
            await request.client.hang_up()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                started.update(message)
            else:
                parts.append(message.get("body", b""))

        try:
            await self._app(_scope(request), receive, send)
        except Exception:
            # Starlette answers a defect, and raises it once more for servers that log.
            if not started:
                raise
        headers = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in started["headers"]
            if name.lower() not in _OF_THE_SERVER
        ]
        return Answer(started["status"], headers, b"".join(parts))


def _scope(request: Request) -> Message:
    head = request.head
    host, _, port = head.host.rpartition(":")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": head.method,
        "scheme": "https" if request.client.is_secure else "http",
        "path": unquote(head.path),
        "raw_path": head.path.encode("latin-1"),
        "query_string": head.query.encode("latin-1"),
        "root_path": "",
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in head.headers
        ],
        "client": (request.client.address, request.client.port),
        "server": (host or head.host, int(port) if port.isdecimal() else None),
    }
