"""The broker's own spans: in the trace of a message, told to a real collector."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from bendybus.model.ids import fragment_of
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.compat.trace_collector import Collector, collector

CONFIG: Final = """
UserConfig:
  Namespaces:
  - Name: ours
    Queues:
    - {Name: parts, Properties: {EnablePartitioning: true}}
    - {Name: talks, Properties: {RequiresSession: true}}
    Topics:
    - {Name: news, Subscriptions: [{Name: all}]}
"""
WAIT_SECONDS: Final = 20


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, Collector]]:
    config: Path = tmp_path_factory.mktemp("spans") / "namespace.yaml"
    config.write_text(CONFIG)
    with collector() as found, pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        environment.setenv("OTEL_SERVICE_NAME", "the-bus")
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with broker_process(config) as broker:
            yield broker, found


def traced(
    name: str, *, is_sampled: bool = True, session_id: str | None = None
) -> tuple[bytes, bytes, ServiceBusMessage]:
    """Return a trace, the span in it that sends, and a message that carries both."""
    trace, span = secrets.token_bytes(16), secrets.token_bytes(8)
    text = f"00-{trace.hex()}-{span.hex()}-{'01' if is_sampled else '00'}"
    message = ServiceBusMessage(b"body", application_properties={name: text}, session_id=session_id)
    return trace, span, message


def value(span: Span, name: str) -> str | int:
    [found] = [each.value for each in span.attributes if each.key == name]
    text, number = str(found.string_value), int(found.int_value)
    return text or number


@pytest.mark.parametrize("name", ["traceparent", "Diagnostic-Id"])
def test_a_message_is_followed_from_its_coming_to_its_receiver(
    told: tuple[BrokerProcess, Collector], name: str
) -> None:
    broker, found = told
    trace, parent, message = traced(name)
    with ServiceBusClient.from_connection_string(broker.connection_string()) as client:
        with client.get_queue_sender("parts") as sender:
            sender.send_messages(message)
        with client.get_queue_receiver("parts") as receiver:
            [first] = receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
            receiver.abandon_message(first)
            [again] = receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
            receiver.complete_message(again)
    spans = found.awaited(trace, 3)
    assert sorted(span.name for span in spans) == ["send parts", "wait parts", "wait parts"]
    assert {span.parent_span_id for span in spans} == {parent}
    [sent] = [span for span in spans if span.name == "send parts"]
    assert sent.kind == Span.SPAN_KIND_SERVER
    assert again.sequence_number is not None
    fragment = fragment_of(again.sequence_number)
    assert value(sent, "messaging.destination.partition.id") == str(fragment)
    waits = [span for span in spans if span.name == "wait parts"]
    counts = {value(span, "messaging.servicebus.message.delivery_count") for span in waits}
    assert counts == {0, 1}
    for span in spans:
        assert span.end_time_unix_nano >= span.start_time_unix_nano
        assert value(span, "messaging.system") == "servicebus"
        assert value(span, "messaging.destination.name") == "parts"
    [resource] = {
        each.value.string_value
        for request in found.requests
        for spans_there in request.resource_spans
        for each in spans_there.resource.attributes
        if each.key == "service.name"
    }
    assert resource == "the-bus"


def test_sessions_and_subscriptions_are_followed_too(
    told: tuple[BrokerProcess, Collector],
) -> None:
    broker, found = told
    talk, _, message = traced("traceparent", session_id="s")
    news, _, item = traced("traceparent")
    with ServiceBusClient.from_connection_string(broker.connection_string()) as client:
        with client.get_queue_sender("talks") as sender:
            sender.send_messages(message)
        with client.get_topic_sender("news") as sender:
            sender.send_messages(item)
        with client.get_queue_receiver("talks", session_id="s") as receiver:
            assert receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
        with client.get_subscription_receiver("news", "all") as receiver:
            assert receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
    assert {span.name for span in found.awaited(talk, 2)} == {"send talks", "wait talks"}
    names = {span.name for span in found.awaited(news, 2)}
    assert names == {"send news", "wait news/Subscriptions/all"}


def test_what_carries_no_trace_or_is_not_sampled_or_says_nonsense_has_no_spans(
    told: tuple[BrokerProcess, Collector],
) -> None:
    broker, found = told
    silent, _, unsampled = traced("traceparent", is_sampled=False)
    nonsense = ServiceBusMessage(b"body", application_properties={"traceparent": "00-not-a-trace"})
    last, _, message = traced("traceparent")
    with ServiceBusClient.from_connection_string(broker.connection_string()) as client:
        with client.get_queue_sender("parts") as sender:
            sender.send_messages([ServiceBusMessage(b"plain"), nonsense, unsampled, message])
        with client.get_queue_receiver("parts") as receiver:
            got = receiver.receive_messages(4, max_wait_time=WAIT_SECONDS)
            while len(got) < 4:
                got += receiver.receive_messages(4 - len(got), max_wait_time=WAIT_SECONDS)
    assert len(found.awaited(last, 2)) == 2
    assert found.spans_of(silent) == []
    # Those of the nonsense would have begun a trace of their own.
    sent = [span for span in found.spans() if not span.parent_span_id]
    assert sent == []


def test_a_collector_that_is_away_costs_no_messages(tmp_path: Path) -> None:
    config = tmp_path / "namespace.yaml"
    config.write_text(CONFIG)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        with broker_process(config) as broker:
            with ServiceBusClient.from_connection_string(broker.connection_string()) as client:
                with client.get_queue_sender("parts") as sender:
                    sender.send_messages([traced("traceparent")[2] for _ in range(10)])
                with client.get_queue_receiver("parts") as receiver:
                    assert receiver.receive_messages(10, max_wait_time=WAIT_SECONDS)
            assert broker.stop() == 0
