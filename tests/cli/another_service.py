"""A Service Bus that is not this broker: it knows the management API, and nothing of our own.

What is not there it answers as Azure does: with 200 and a feed of nothing.
"""

import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from bendybus.atom.descriptions import KINDS, Facts, write_description
from bendybus.atom.entries import Envelope, write_entry, write_feed
from bendybus.atom.namespaces import NamespaceDescription, write_namespace
from bendybus.atom.properties import Kind
from bendybus.model.entity import Queue, Subscription, Topic

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACE: Final = NamespaceDescription(name="elsewhere", created_at=NOW, modified_at=NOW)
EMPTY_FEED: Final = (
    '<feed xmlns="http://www.w3.org/2005/Atom"><title type="text">Publicly Listed Services</title>'
    "<id>https://elsewhere/</id><updated>2026-01-01T00:00:00Z</updated></feed>"
)
QUOTA: Final = (
    "<Error><Code>403</Code><Detail>SubCode=40300. The maximum number of resources of type"
    " `Queue` has been reached or exceeded. TrackingId:1</Detail></Error>"
)

Entity = Queue | Topic | Subscription
Lists = dict[str, Sequence[tuple[Entity, Facts]]]


@dataclass(slots=True)
class AnotherService:
    """What it holds, by the path of its list; and how well its clock goes."""

    lists: Lists
    port: int = 0
    skew: timedelta = timedelta(0)
    asked: list[str] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a command that goes there. Its AMQP is a port that takes anybody."""
        return {
            "BENDYBUS_MANAGEMENT_URL": f"http://127.0.0.1:{self.port}",
            "BENDYBUS_CONNECTION_STRING": f"Endpoint=sb://127.0.0.1:{self.port};"
            "SharedAccessKeyName=R;SharedAccessKey=k;UseDevelopmentEmulator=true;",
        }

    def answer(self, path: str) -> str:
        """Describe what a path means."""
        if path == "/$namespaceinfo":
            return write_entry(_envelope("elsewhere"), Kind.NAMESPACE, write_namespace(NAMESPACE))
        found = self.lists.get(path)
        if found is None:
            return EMPTY_FEED
        entries = [
            (_envelope(entity.name), write_description(entity, facts, host="elsewhere"))
            for entity, facts in found
        ]
        kind = KINDS[type(found[0][0])] if found else Kind.QUEUE
        return write_feed(_envelope("list"), entries, kind, None)


@contextmanager
def another_service(lists: Lists, tls: ssl.SSLContext | None = None) -> Iterator[AnotherService]:
    """Serve it from a thread."""
    service = AnotherService(lists)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            service.asked.append(path)
            self._say(200, service.answer(path))

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._say(403, QUOTA)

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def date_time_string(self, timestamp: float | None = None) -> str:
            del timestamp
            return format_datetime(datetime.now(UTC) + service.skew, usegmt=True)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    service.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield service
    server.shutdown()
    thread.join(timeout=10)
    server.server_close()


def _envelope(title: str) -> Envelope:
    return Envelope(
        address=f"https://elsewhere/{title}",
        title=title,
        author="elsewhere",
        published=NOW,
        updated=NOW,
    )
