"""What is refused, and with which of the client's exceptions."""

from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageProperties
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    ServiceBusAuthenticationError,
    ServiceBusError,
)

from bendybus.model.access import make_sas
from tests.compat.python.scenario import (
    Bus,
    is_empty,
    numbered,
    receive_all,
    scenario,
)

ROOT_RULE = "RootManageSharedAccessKey"


@pytest.mark.spec("R8.1")
@scenario()
def a_wrong_key_is_an_authentication_error(bus: Bus) -> None:
    wrong = bus.connection_string.replace("SAS_KEY_VALUE", "wrong")
    _assert_no_entry(wrong, bus.queue)


@scenario()
def an_unknown_rule_is_an_authentication_error(bus: Bus) -> None:
    _assert_no_entry(bus.connection_string.replace(ROOT_RULE, "nobody"), bus.queue)


@scenario()
def an_unknown_queue_is_an_authentication_error(bus: Bus) -> None:
    """The service refuses the token for a queue that is not there; the client expects that."""
    _assert_no_entry(bus.connection_string, "no-such-queue")


@scenario()
def a_token_made_elsewhere_is_taken_until_it_ends(bus: Bus) -> None:
    with _client_with_token(bus, timedelta(minutes=5)) as client:
        with client.get_queue_sender(bus.queue) as sender:
            sender.send_messages(numbered(1))
        with client.get_queue_receiver(bus.queue) as receiver:
            receive_all(receiver, 1)
    with (
        _client_with_token(bus, timedelta(minutes=-5)) as late,
        pytest.raises(ServiceBusAuthenticationError),
        late.get_queue_sender(bus.queue),
    ):
        pass


@scenario()
def sending_to_dead_letters_is_refused(bus: Bus) -> None:
    with (
        bus.client(retry_total=0) as client,
        pytest.raises(ServiceBusError, match="dead-letter"),
        client.get_queue_sender(f"{bus.queue}/$DeadLetterQueue"),
    ):
        pass


@scenario()
def a_session_of_a_queue_without_sessions_is_refused(bus: Bus) -> None:
    with (
        bus.client(retry_total=0) as client,
        pytest.raises(ServiceBusError, match="does not require sessions"),
        client.get_queue_receiver(bus.queue, session_id="session"),
    ):
        pass


@scenario(Status="SendDisabled")
def a_queue_closed_for_sending_says_so(bus: Bus) -> None:
    with (
        bus.client(retry_total=0) as client,
        pytest.raises(MessagingEntityDisabledError),
        client.get_queue_sender(bus.queue),
    ):
        pass
    with bus.receiver() as receiver:
        assert is_empty(receiver)


@scenario(Status="ReceiveDisabled")
def a_queue_closed_for_receiving_says_so(bus: Bus) -> None:
    bus.send(*numbered(1))
    with (
        bus.client(retry_total=0) as client,
        pytest.raises(MessagingEntityDisabledError),
        client.get_queue_receiver(bus.queue),
    ):
        pass


@pytest.mark.spec("R2.2")
@scenario()
def a_session_id_with_another_partition_key_is_refused(bus: Bus) -> None:
    _assert_refused(
        bus,
        AmqpAnnotatedMessage(
            data_body=b"",
            properties=AmqpMessageProperties(group_id="session"),
            annotations={"x-opt-partition-key": "another"},
        ),
        "SessionId",
    )


@scenario()
def a_key_longer_than_128_characters_is_refused(bus: Bus) -> None:
    _assert_refused(
        bus,
        AmqpAnnotatedMessage(data_body=b"", annotations={"x-opt-partition-key": "k" * 129}),
        "PartitionKey",
    )


@scenario()
def a_property_larger_than_32_kilobytes_is_refused(bus: Bus) -> None:
    _assert_refused(
        bus, ServiceBusMessage(b"", application_properties={"wide": "x" * 33_000}), "wide"
    )


def _assert_no_entry(connection_string: str, queue: str) -> None:
    """Neither a sender nor a receiver opens."""
    with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
        for handler in (client.get_queue_sender(queue), client.get_queue_receiver(queue)):
            with pytest.raises(ServiceBusAuthenticationError), handler:
                pass


def _assert_refused(
    bus: Bus, message: ServiceBusMessage | AmqpAnnotatedMessage, named: str
) -> None:
    """The send fails and says what is wrong; the link goes on."""
    with bus.sender(retry_total=0) as sender:
        with pytest.raises(ServiceBusError, match=named):
            sender.send_messages(message)
        sender.send_messages(ServiceBusMessage(b"good"))
    with bus.receiver() as receiver:
        receive_all(receiver, 1)
        assert is_empty(receiver)


def _client_with_token(bus: Bus, lifetime: timedelta) -> ServiceBusClient:
    endpoint = bus.connection_string.split(";")[0]
    resource = endpoint.removeprefix("Endpoint=")
    token = make_sas(resource, ROOT_RULE, "SAS_KEY_VALUE", datetime.now(UTC) + lifetime)
    return ServiceBusClient.from_connection_string(
        f"{endpoint};SharedAccessSignature={token};UseDevelopmentEmulator=true;", retry_total=0
    )
