"""Several namespaces over HTTP, chosen by Host, from one configuration file."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from bendybus.model.access import make_sas
from bendybus.testing.broker_process import BrokerProcess, broker_process

CONFIG = """
UserConfig:
  Namespaces:
  - Name: first
    Queues: [{Name: orders}]
  - Name: second
    Tier: Premium
    PremiumPartitioning: namespace
    NamespaceFragments: 2
    AuthorizationRules:
    - KeyName: RootManageSharedAccessKey
      PrimaryKey: the-key-of-the-second-one
      Rights: [Manage, Send, Listen]
    Queues: [{Name: orders}]
Broker:
  Stores: 2
"""
KEYS = {"first": "SAS_KEY_VALUE", "second": "the-key-of-the-second-one"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("hosts")
    config = folder / "namespaces.yaml"
    config.write_text(CONFIG)
    with broker_process(config) as process:
        yield process


def call(
    broker: BrokerProcess, method: str, path: str, host: str, key: str, content: bytes = b""
) -> httpx.Response:
    expires_at = datetime.now(UTC) + timedelta(minutes=5)
    token = make_sas(f"http://{host}/", "RootManageSharedAccessKey", key, expires_at)
    headers = {"Host": host, "Authorization": token}
    url = f"http://127.0.0.1:{broker.http_port}{path}"
    with httpx.Client(trust_env=False) as http:
        return http.request(method, url, headers=headers, content=content)


@pytest.mark.parametrize("name", ["first", "second"])
def test_a_message_stays_in_the_namespace_that_it_was_sent_to(
    broker: BrokerProcess, name: str
) -> None:
    host = f"{name}.example"
    sent = call(broker, "POST", "/orders/messages", host, KEYS[name], name.encode())
    assert sent.status_code == 201
    received = call(broker, "DELETE", "/orders/messages/head?timeout=5", host, KEYS[name])
    assert (received.status_code, received.content) == (200, name.encode())
    empty = call(broker, "DELETE", "/orders/messages/head?timeout=0", host, KEYS[name])
    assert empty.status_code == 204


def test_a_key_of_one_opens_nothing_of_the_other(broker: BrokerProcess) -> None:
    for path in ("/orders", "/$Resources/queues", "/$namespaceinfo", "/$stores"):
        for name, other in (("first", "second"), ("second", "first")):
            assert call(broker, "GET", path, name, KEYS[other]).status_code in (401, 404)


def test_each_says_its_own_name_and_tier(broker: BrokerProcess) -> None:
    for name, tier, size in (("first", "Standard", 1024), ("second", "Premium", 2048)):
        info = call(broker, "GET", "/$namespaceinfo?api-version=2021-05", name, KEYS[name]).text
        assert f"<Name>{name}</Name>" in info
        assert f"<MessagingSKU>{tier}</MessagingSKU>" in info
        queue = call(broker, "GET", "/orders?api-version=2021-05", name, KEYS[name]).text
        assert f"<MaxSizeInMegabytes>{size}</MaxSizeInMegabytes>" in queue


def test_a_host_of_no_namespace_gets_nothing(broker: BrokerProcess) -> None:
    for path in ("/orders", "/$namespaceinfo", "/$stores"):
        answer = call(broker, "GET", path, "third.example", KEYS["first"])
        assert answer.status_code == 404
        assert "There is no namespace for the host 'third.example'" in answer.text


def test_stores_are_the_default_one_s(broker: BrokerProcess) -> None:
    assert call(broker, "GET", "/$stores", "localhost", KEYS["first"]).status_code == 200
    assert call(broker, "GET", "/$stores", "second", KEYS["second"]).status_code == 404


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_who_watches_the_broker_may_call_it_by_any_name(broker: BrokerProcess, path: str) -> None:
    url = f"http://127.0.0.1:{broker.http_port}"
    with httpx.Client(trust_env=False) as http:
        assert http.get(url + path, headers={"Host": "container"}).status_code == 200
        assert http.get(url + "/orders", headers={"Host": "container"}).status_code == 404
