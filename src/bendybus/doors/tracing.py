"""Traces: what the broker does with a message becomes part of the trace that the message carries.

Two spans for each: `send`, from when it came until it was on disk, and `wait`, from then until a
receiver was given it. They go where OpenTelemetry's own variables say, such as
`OTEL_EXPORTER_OTLP_ENDPOINT`; without them there is none of this. A message that carries no trace
gets no span, and one whose sender chose not to sample its trace neither.

Spans leave by a thread of OpenTelemetry's, in batches, out of a queue with a bound: what does not
fit, because nobody takes them, is left out.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from bendybus.content.rule_view import ContentView
from bendybus.model.errors import StartRefused
from bendybus.model.ids import Instant, fragment_of
from bendybus.model.message import Message, StoredMessage
from bendybus.model.sql_values import FilterFailed

# Any of these says that traces are wanted.
VARIABLES: Final = (
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
)
OTLP: Final = "otlp"
NO_TRACES: Final = "none"
PACKAGES: Final = "opentelemetry.exporter.otlp"
# Where clients put the trace of a message, the newer name first; both mean the same. Names are
# looked up in small letters.
_PARENTS: Final = ("traceparent", "diagnostic-id")
_STATE: Final = "tracestate"
_MARKS: Final = (b"traceparent", b"Diagnostic-Id", b"diagnostic-id")
_MILLISECOND: Final = 1_000_000


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Say whether traces are configured. Raises `StartRefused` if in a way that is not known."""
    exporter = environment.get("OTEL_TRACES_EXPORTER", OTLP).strip().lower()
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or exporter == NO_TRACES:
        return False
    if exporter != OTLP:
        raise StartRefused(
            f"OTEL_TRACES_EXPORTER is '{exporter}', and traces leave by '{OTLP}' alone; set it to"
            f" '{OTLP}' or '{NO_TRACES}'"
        )
    return any(environment.get(name) for name in VARIABLES)


@contextmanager
def tracing(environment: Mapping[str, str]) -> Iterator["OpenTelemetryTraces | None"]:
    """Write traces if the environment says where to; what is left goes out at the end."""
    if not are_wanted(environment):
        yield None
        return
    if find_spec("opentelemetry") is None or find_spec(PACKAGES) is None:
        named = next(name for name in VARIABLES if environment.get(name))
        raise StartRefused(
            f"{named} asks for traces, and the packages for them are not installed; install them"
            " with: pip install 'bendybus[traces]', or unset it"
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # What the environment says of the service counts.
    resource = Resource({SERVICE_NAME: "bendybus"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    try:
        yield OpenTelemetryTraces(provider)
    finally:
        provider.shutdown()


class OpenTelemetryTraces:
    """Makes the spans."""

    def __init__(self, provider: Any) -> None:  # noqa: ANN401 - its package may not be installed
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = provider.get_tracer("bendybus")
        self._propagator = TraceContextTextMapPropagator()
        self._send_kind = SpanKind.SERVER
        self._wait_kind = SpanKind.INTERNAL

    def note_sent(
        self, entity: str, fragment: int, messages: Sequence[Message], *, came_at: Instant
    ) -> None:
        """Note that messages, which came at an instant, are on disk now."""
        ended = time.time_ns()
        for message in messages:
            carried = _carried(message)
            if carried:
                self._write(
                    carried,
                    f"send {entity}",
                    (came_at * _MILLISECOND, ended),
                    self._send_kind,
                    _attributes("send", entity, fragment, message.message_id),
                )

    def note_received(self, entity: str, messages: Sequence[StoredMessage]) -> None:
        """Note that messages have waited until now, and are handed to a receiver."""
        ended = time.time_ns()
        for message in messages:
            carried = _carried(Message(message.content, marks=message.marks))
            if carried:
                attributes = _attributes("receive", entity, fragment_of(message.sequence), "")
                attributes["messaging.servicebus.message.delivery_count"] = message.delivery_count
                attributes["messaging.servicebus.message.enqueued_time"] = (
                    message.enqueued_at // 1000
                )
                span = (message.enqueued_at * _MILLISECOND, ended)
                self._write(carried, f"wait {entity}", span, self._wait_kind, attributes)

    def _write(
        self,
        carried: Mapping[str, str],
        name: str,
        span: tuple[int, int],
        kind: Any,  # noqa: ANN401 - its package may not be installed
        attributes: Mapping[str, str | int],
    ) -> None:
        context = self._propagator.extract(carried)
        if not context:
            return  # Not the text of a trace.
        started, ended = span
        self._tracer.start_span(
            name, context, kind=kind, attributes=attributes, start_time=min(started, ended)
        ).end(ended)


def _carried(message: Message) -> dict[str, str]:
    """Return the trace that a message carries; most carry none, which is told by a look."""
    content = message.content
    if not any(mark in content for mark in _MARKS):
        return {}
    try:
        properties = ContentView(message, Instant(0)).user
    except FilterFailed:
        return {}
    texts = {name: _text(properties.get(name)) for name in (*_PARENTS, _STATE)}
    parent = next((texts[name] for name in _PARENTS if texts[name]), "")
    if not parent:
        return {}
    return {"traceparent": parent, **({_STATE: texts[_STATE]} if texts[_STATE] else {})}


def _text(value: object) -> str:
    """Return what a property says; the client of Python writes bytes."""
    if isinstance(value, bytes):
        return value.decode("ascii", "replace")
    return value if isinstance(value, str) else ""


def _attributes(
    operation: str, entity: str, fragment: int, message_id: str
) -> dict[str, str | int]:
    """Return what OpenTelemetry's conventions for messaging call these things."""
    attributes: dict[str, str | int] = {
        "messaging.system": "servicebus",
        "messaging.operation.name": operation,
        "messaging.destination.name": entity,
        "messaging.destination.partition.id": str(fragment),
    }
    if message_id:
        attributes["messaging.message.id"] = message_id
    return attributes
