"""The official client with a token credential, as it uses one of Microsoft Entra ID."""

import time
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.http.local_issuer import AUDIENCE, LocalIssuer

QUEUES = ["orders", "parts"]
CONFIG = f"""
UserConfig:
  Namespaces:
  - Name: ours
    TokenIssuer: {{Issuer: 'https://issuer', Audience: '{AUDIENCE}', KeysFile: keys.json}}
    Queues:
    - Name: orders
    - Name: parts
      Properties: {{EnablePartitioning: true}}
"""


class Credential:
    """What an application gives the client, and what the client asks of it."""

    def __init__(self, issuer: LocalIssuer, *roles: str) -> None:
        self.scopes: set[str] = set()
        self._issuer = issuer
        self._roles = [f"Azure Service Bus Data {role}" for role in roles]

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        """Sign a token."""
        self.scopes.update(scopes)
        expires = int(time.time()) + 3600
        return AccessToken(self._issuer.token("key", expires=expires, roles=self._roles), expires)


@pytest.fixture
def issuer(tmp_path: Path) -> LocalIssuer:
    issuer = LocalIssuer("https://issuer")
    issuer.add_key("key", "RS256")
    (tmp_path / "keys.json").write_bytes(issuer.document())
    (tmp_path / "namespace.yaml").write_text(CONFIG)
    return issuer


def _client(broker: BrokerProcess, credential: Credential) -> ServiceBusClient:
    # What the client itself does for the emulator, whose connection strings have keys only.
    return ServiceBusClient(
        f"localhost:{broker.amqp_port}",
        credential,
        use_tls=False,
        retry_total=0,
    )


@pytest.mark.spec("R8.1")
def test_the_roles_of_a_credential_open_queues(issuer: LocalIssuer, tmp_path: Path) -> None:
    owner, receiver = Credential(issuer, "Owner"), Credential(issuer, "Receiver")
    stranger = Credential(LocalIssuer("https://issuer"), "Owner")
    stranger._issuer.add_key("key", "RS256")
    options = ("--stores", "2")
    with broker_process(tmp_path / "namespace.yaml", folder=tmp_path, options=options) as broker:
        for queue in QUEUES:
            with _client(broker, owner) as client, client.get_queue_sender(queue) as sender:
                sender.send_messages(ServiceBusMessage("hello"))
            with (
                _client(broker, receiver) as client,
                client.get_queue_receiver(queue) as source,
            ):
                [message] = source.receive_messages(1, max_wait_time=30)
                source.complete_message(message)
            with (
                _client(broker, receiver) as client,
                pytest.raises(ServiceBusAuthorizationError, match="'Send' claim"),
                client.get_queue_sender(queue),
            ):
                pass
            with (
                _client(broker, stranger) as client,
                pytest.raises(ServiceBusAuthenticationError),
                client.get_queue_sender(queue),
            ):
                pass
    assert owner.scopes == {f"{AUDIENCE}/.default"}
