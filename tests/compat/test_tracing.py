"""A message's trace goes on at whoever receives it, whichever way the message took."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from azure.core.settings import settings
from azure.core.tracing.ext.opentelemetry_span import OpenTelemetrySpan
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSubQueue,
)
from opentelemetry.sdk.trace import TracerProvider

from bendybus.testing.broker_process import BrokerProcess, broker_process

CONFIG: Final = """
UserConfig:
  Namespaces:
  - Name: ours
    Queues:
    - Name: end
    - {Name: plain, Properties: {ForwardDeadLetteredMessagesTo: end}}
    - {Name: parts, Properties: {EnablePartitioning: true}}
    - {Name: forwards, Properties: {ForwardTo: parts}}
    Topics:
    - Name: news
      Subscriptions: [{Name: all}]
    - Name: wide
      Properties: {EnablePartitioning: true}
      Subscriptions: [{Name: all, Properties: {ForwardTo: end}}]
"""
WAIT_SECONDS: Final = 20
SAMPLED: Final = 1
# As other clients write it: texts, not bytes.
BY_HAND: Final[dict[str | bytes, int | float | bytes | str | UUID]] = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7",
    "Diagnostic-Id": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}

Way = Callable[[ServiceBusClient, ServiceBusMessage], ServiceBusReceivedMessage]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config: Path = tmp_path_factory.mktemp("tracing") / "namespace.yaml"
    config.write_text(CONFIG)
    with broker_process(config) as running:
        yield running


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[ServiceBusClient]:
    text = broker.connection_string()
    with ServiceBusClient.from_connection_string(text) as client:
        yield client


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    """Have the official client trace what it does."""
    provider = TracerProvider()
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    settings.tracing_implementation = OpenTelemetrySpan
    yield provider
    settings.tracing_implementation.unset_value()


def received(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    with receiver:
        [message] = receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
        receiver.complete_message(message)
        return message


def by_queue(name: str, end: str) -> Way:
    def go(client: ServiceBusClient, message: ServiceBusMessage) -> ServiceBusReceivedMessage:
        with client.get_queue_sender(name) as sender:
            sender.send_messages(message)
        return received(client.get_queue_receiver(end))

    return go


def by_subscription(
    client: ServiceBusClient, message: ServiceBusMessage
) -> ServiceBusReceivedMessage:
    with client.get_topic_sender("news") as sender:
        sender.send_messages(message)
    return received(client.get_subscription_receiver("news", "all"))


def by_subscription_that_forwards(
    client: ServiceBusClient, message: ServiceBusMessage
) -> ServiceBusReceivedMessage:
    with client.get_topic_sender("wide") as sender:
        sender.send_messages(message)
    return received(client.get_queue_receiver("end"))


def scheduled(client: ServiceBusClient, message: ServiceBusMessage) -> ServiceBusReceivedMessage:
    with client.get_queue_sender("parts") as sender:
        sender.schedule_messages(message, datetime.now(UTC) + timedelta(seconds=1))
    return received(client.get_queue_receiver("parts"))


def as_dead_letter(
    client: ServiceBusClient, message: ServiceBusMessage
) -> ServiceBusReceivedMessage:
    with client.get_queue_sender("parts") as sender:
        sender.send_messages(message)
    with client.get_queue_receiver("parts") as receiver:
        [first] = receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
        receiver.dead_letter_message(first, reason="unusable")
    return received(client.get_queue_receiver("parts", sub_queue=ServiceBusSubQueue.DEAD_LETTER))


def as_forwarded_dead_letter(
    client: ServiceBusClient, message: ServiceBusMessage
) -> ServiceBusReceivedMessage:
    with client.get_queue_sender("plain") as sender:
        sender.send_messages(message)
    with client.get_queue_receiver("plain") as receiver:
        [first] = receiver.receive_messages(1, max_wait_time=WAIT_SECONDS)
        receiver.dead_letter_message(first, reason="unusable")
    return received(client.get_queue_receiver("end"))


WAYS: Final = pytest.mark.parametrize(
    "way",
    [
        pytest.param(by_queue("plain", "plain"), id="queue"),
        pytest.param(by_queue("parts", "parts"), id="partitioned queue"),
        pytest.param(by_queue("forwards", "parts"), id="forwarding"),
        pytest.param(by_subscription, id="subscription"),
        pytest.param(by_subscription_that_forwards, id="subscription that forwards"),
        pytest.param(scheduled, id="scheduled"),
        pytest.param(as_dead_letter, id="dead letter"),
        pytest.param(as_forwarded_dead_letter, id="forwarded dead letter"),
    ],
)


@WAYS
def test_a_trace_of_the_official_client_goes_on_at_the_receiver(
    client: ServiceBusClient, provider: TracerProvider, way: Way
) -> None:
    with provider.get_tracer("test").start_as_current_span("an order") as span:
        message = way(client, ServiceBusMessage(b"x"))
    properties = message.application_properties
    assert properties is not None
    context = properties[b"traceparent"]
    assert isinstance(context, bytes)
    version, trace_id, span_id, flags = context.decode().split("-")
    assert version == "00"
    assert int(flags, 16) & SAMPLED
    assert int(trace_id, 16) == span.get_span_context().trace_id
    assert int(span_id, 16) != 0
    assert properties[b"Diagnostic-Id"] == context


@WAYS
def test_what_another_client_wrote_to_follow_a_message_is_carried_unchanged(
    client: ServiceBusClient, way: Way
) -> None:
    message = way(client, ServiceBusMessage(b"x", application_properties={**BY_HAND}))
    found = message.application_properties or {}
    carried = {
        key.decode() if isinstance(key, bytes) else key: (
            value.decode() if isinstance(value, bytes) else value
        )
        for key, value in found.items()
    }
    assert BY_HAND.items() <= carried.items()
