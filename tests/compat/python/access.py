"""Keys of a single queue: what the client may do with them, and how it is told what it may not."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.servicebus import ServiceBusClient, TransportType
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from bendybus.model.access import make_sas
from tests.compat.cases import CONVENTIONAL
from tests.compat.python.scenario import Bus, numbered, receive_all, scenario

_SENDER_KEY = "the-key-of-the-sender"
_LISTENER_KEY = "the-other-key-of-the-listener"
_RULES = [
    {"KeyName": "sender", "Rights": ["Send"], "PrimaryKey": _SENDER_KEY},
    {"KeyName": "listener", "Rights": ["Listen"], "SecondaryKey": _LISTENER_KEY},
]


@pytest.mark.spec("R8.1")
@scenario(AuthorizationRules=_RULES)
def keys_of_a_queue_send_and_receive_by_their_rights(bus: Bus) -> None:
    with (
        _client(bus, "sender", _SENDER_KEY) as client,
        client.get_queue_sender(bus.queue) as sender,
    ):
        sender.send_messages(numbered(2))
    with (
        _client(bus, "listener", _LISTENER_KEY) as client,
        client.get_queue_receiver(bus.queue) as receiver,
    ):
        receive_all(receiver, 2)


@pytest.mark.spec("R8.1")
@scenario(AuthorizationRules=_RULES)
def a_missing_right_is_an_authorization_error(bus: Bus) -> None:
    with (
        _client(bus, "listener", _LISTENER_KEY, retry_total=0) as client,
        pytest.raises(ServiceBusAuthorizationError, match="'Send' claim"),
        client.get_queue_sender(bus.queue),
    ):
        pass
    with (
        _client(bus, "sender", _SENDER_KEY, retry_total=0) as client,
        pytest.raises(ServiceBusAuthorizationError, match="'Listen' claim"),
        client.get_queue_receiver(bus.queue),
    ):
        pass


@pytest.mark.spec("R8.1")
@scenario(AuthorizationRules=_RULES)
def a_key_of_another_rule_is_an_authentication_error(bus: Bus) -> None:
    with (
        _client(bus, "listener", _SENDER_KEY, retry_total=0) as client,
        pytest.raises(ServiceBusAuthenticationError),
        client.get_queue_receiver(bus.queue),
    ):
        pass


@pytest.mark.spec("R8.1")
@scenario(kinds=(CONVENTIONAL,), AuthorizationRules=_RULES)
def credentials_are_taken_in_place_of_a_connection_string(bus: Bus) -> None:
    with (
        _client_with(bus, AzureNamedKeyCredential("sender", _SENDER_KEY)) as client,
        client.get_queue_sender(bus.queue, client_identifier="a name") as sender,
    ):
        assert sender.client_identifier == "a name"
        sender.send_messages(numbered(1))
    soon = datetime.now(UTC) + timedelta(minutes=5)
    token = make_sas(f"sb://localhost/{bus.queue}", "listener", _LISTENER_KEY, soon)
    with (
        _client_with(bus, AzureSasCredential(token)) as client,
        client.get_queue_receiver(bus.queue) as receiver,
    ):
        receive_all(receiver, 1)


def _client_with(bus: Bus, credential: Any) -> ServiceBusClient:
    """Connect with TLS, which the client insists on without a connection string."""
    encrypted = bus.encrypted
    assert encrypted is not None
    return ServiceBusClient(
        "localhost",
        credential,
        custom_endpoint_address=f"sb://localhost:{encrypted.amqpsPort}",
        transport_type=TransportType.Amqp,
        connection_verify=encrypted.authority,
    )


def _client(bus: Bus, rule: str, key: str, **options: Any) -> ServiceBusClient:
    """Connect as one does with the connection string of a single queue."""
    root = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
    assert root in bus.connection_string
    own = f"SharedAccessKeyName={rule};SharedAccessKey={key};EntityPath={bus.queue}"
    text = bus.connection_string.replace(root, own)
    return ServiceBusClient.from_connection_string(text, **options)
