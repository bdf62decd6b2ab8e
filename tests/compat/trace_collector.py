"""A collector of traces: takes what OpenTelemetry's exporter sends, and keeps it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

WAIT_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05


class Collector:
    """Spans, as they came."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.url = ""

    def spans(self) -> list[Span]:
        """All of them, the earliest first."""
        found = [
            span
            for request in list(self.requests)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    def spans_of(self, trace: bytes) -> list[Span]:
        """Those of one trace."""
        return [span for span in self.spans() if span.trace_id == trace]

    def awaited(self, trace: bytes, count: int) -> list[Span]:
        """Wait until so many spans of a trace have come."""
        deadline = time.monotonic() + WAIT_SECONDS
        while len(found := self.spans_of(trace)) < count:
            assert time.monotonic() < deadline, [span.name for span in found]
            time.sleep(_POLL_SECONDS)
        return found


@contextmanager
def collector() -> Iterator[Collector]:
    """Listen for traces on a port of this machine."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
