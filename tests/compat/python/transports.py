"""The client's other ways to the broker: TLS, and WebSockets, which need TLS in this client."""

from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from tests.compat.cases import CONVENTIONAL, PARTITIONED
from tests.compat.python import asynchronous
from tests.compat.python.scenario import (
    Bus,
    body_of,
    is_empty,
    numbered,
    numbered_bodies,
    receive,
    scenario,
)

# Several frames of AMQP.
LARGE = bytes(range(256)) * 800


def way(bus: Bus, transport: TransportType) -> dict[str, Any]:
    """What the client must be told to come by another door than the plain one."""
    encrypted = bus.encrypted
    assert encrypted is not None
    is_websocket = transport is TransportType.AmqpOverWebsocket
    port = encrypted.httpsPort if is_websocket else encrypted.amqpsPort
    return {
        "conn_str": bus.connection_string.replace("UseDevelopmentEmulator=true;", ""),
        "custom_endpoint_address": f"sb://localhost:{port}",
        "transport_type": transport,
        "connection_verify": encrypted.authority,
    }


def go_there_and_back(bus: Bus, transport: TransportType) -> None:
    with ServiceBusClient.from_connection_string(**way(bus, transport)) as client:
        with client.get_queue_sender(bus.queue) as sender:
            sender.send_messages(numbered(3))
            sender.send_messages(ServiceBusMessage(LARGE))
        with client.get_queue_receiver(bus.queue) as receiver:
            messages = receive(receiver, 4)
            assert sorted(map(body_of, messages)) == sorted([*numbered_bodies(3), LARGE])
            for message in messages:
                receiver.complete_message(message)
            assert is_empty(receiver)


async def async_go_there_and_back(bus: Bus, transport: TransportType) -> None:
    async with AsyncServiceBusClient.from_connection_string(**way(bus, transport)) as client:
        messages = [*numbered(3), ServiceBusMessage(LARGE)]
        await asynchronous.send(client, bus.queue, messages[:3])
        await asynchronous.send(client, bus.queue, messages[3:])
        async with client.get_queue_receiver(bus.queue) as receiver:
            held = await asynchronous.receive(receiver, 4)
            assert sorted(map(body_of, held)) == sorted([*numbered_bodies(3), LARGE])
            for message in held:
                await receiver.complete_message(message)
            assert await asynchronous.is_empty(receiver)


@pytest.mark.spec("R8.1")
@scenario()
def messages_go_over_tls(bus: Bus) -> None:
    go_there_and_back(bus, TransportType.Amqp)


@pytest.mark.spec("R8.1")
@scenario()
def messages_go_over_a_websocket(bus: Bus) -> None:
    go_there_and_back(bus, TransportType.AmqpOverWebsocket)


@pytest.mark.spec("R8.1")
@scenario(kinds=(PARTITIONED,))
async def async_messages_go_over_tls(bus: Bus) -> None:
    await async_go_there_and_back(bus, TransportType.Amqp)


@pytest.mark.spec("R8.1")
@scenario(kinds=(PARTITIONED,))
async def async_messages_go_over_a_websocket(bus: Bus) -> None:
    await async_go_there_and_back(bus, TransportType.AmqpOverWebsocket)


@scenario(kinds=(CONVENTIONAL,))
def a_client_that_does_not_trust_the_authority_stays_outside(bus: Bus) -> None:
    options = way(bus, TransportType.Amqp)
    del options["connection_verify"]
    with (
        ServiceBusClient.from_connection_string(**options, retry_total=0) as client,
        pytest.raises(ServiceBusError, match="CERTIFICATE_VERIFY_FAILED"),
        client.get_queue_sender(bus.queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("never"))
