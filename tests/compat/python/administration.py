"""The administration client, over the management API: everything that it offers.

Each scenario runs with the blocking client, on HTTP and on HTTPS, and with the asynchronous one,
which has code of its own for nearly everything.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import (
    AccessRights,
    AuthorizationRule,
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from tests.compat.python.scenario import Bus, receive_all, scenario, until

Administer = Callable[[Bus, Any], None]

KEY = "SAS_KEY_VALUE"


class Blocking:
    """An asynchronous client that is called like the blocking one."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return self._loop.run_until_complete(self._finish(method(*arguments, **options)))

        return call

    async def _finish(self, outcome: Any) -> Any:
        if inspect.isawaitable(outcome):
            return await outcome
        return [each async for each in outcome]

    def end(self) -> None:
        """Close the client and its loop."""
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


@contextmanager
def over_http(bus: Bus, key: str = KEY) -> Iterator[Any]:
    """Open the blocking client on plain HTTP, which it must be sent to.

    It takes HTTPS for granted. Microsoft's own samples for the emulator do the same.
    """
    connection_string = bus.connection_string.replace(KEY, key)
    client = ServiceBusAdministrationClient.from_connection_string(connection_string)
    client._impl._client._base_url = bus.management_url
    with client:
        yield client


@contextmanager
def over_https(bus: Bus, key: str = KEY) -> Iterator[Any]:
    """Open the blocking client as it is."""
    connection_string, options = _https(bus, key)
    with ServiceBusAdministrationClient.from_connection_string(
        connection_string, **options
    ) as client:
        yield client


@contextmanager
def asynchronously(bus: Bus, key: str = KEY) -> Iterator[Any]:
    """Open the asynchronous client as it is."""
    # Here, because it wants a package that only its users need.
    from azure.servicebus.aio.management import ServiceBusAdministrationClient as Asynchronous

    connection_string, options = _https(bus, key)
    client = Blocking(Asynchronous.from_connection_string(connection_string, **options))
    try:
        yield client
    finally:
        client.end()


def _https(bus: Bus, key: str) -> tuple[str, dict[str, Any]]:
    assert bus.encrypted is not None
    endpoint = f"Endpoint=sb://localhost:{bus.encrypted.httpsPort}"
    credentials = f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={key}"
    return f"{endpoint};{credentials}", {"connection_verify": bus.encrypted.authority}


OPENERS = {"": over_http, "_over_https": over_https, "_asynchronously": asynchronously}


def administration(function: Administer) -> Administer:
    """Declare a scenario for every way to open a client."""

    def declared_for(ending: str) -> Callable[[Bus], None]:
        def run(bus: Bus) -> None:
            with OPENERS[ending](bus) as client:
                function(bus, client)

        run.__name__ = f"{function.__name__}{ending}"
        marks = getattr(function, "pytestmark", [])
        run.pytestmark = marks  # type: ignore[attr-defined]  # as pytest itself puts them there
        return run

    for ending in OPENERS:
        scenario()(declared_for(ending))
    return function


@administration
@pytest.mark.spec("R1.3", "R1.4", "R7.1")
def a_queue_lives_from_its_creation_to_its_end(bus: Bus, client: Any) -> None:
    name = f"{bus.queue}-made"
    made = client.create_queue(name, enable_partitioning=bus.is_partitioned)
    assert made.name == name
    assert made.enable_partitioning is bus.is_partitioned
    shown = client.get_queue(name)
    assert shown.max_size_in_megabytes == 1024 * (16 if bus.is_partitioned else 1)
    assert (shown.status, shown.availability_status) == ("Active", "Available")
    assert shown.lock_duration == timedelta(minutes=1)
    with pytest.raises(ResourceExistsError):
        client.create_queue(name)
    shown.lock_duration = timedelta(seconds=13)
    client.update_queue(shown)
    assert client.get_queue(name).lock_duration == timedelta(seconds=13)
    client.delete_queue(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_queue(name)
    with pytest.raises(ResourceNotFoundError):
        client.delete_queue(name)


@administration
def every_property_of_a_queue_is_kept_and_changed(bus: Bus, client: Any) -> None:
    name, target = f"{bus.queue}-all", bus.queue
    client.create_queue(
        name,
        authorization_rules=[_authorization_rule()],
        auto_delete_on_idle="PT10M1S",
        dead_lettering_on_message_expiration=True,
        default_message_time_to_live=timedelta(minutes=11),
        duplicate_detection_history_time_window=timedelta(minutes=12),
        enable_batched_operations=False,
        enable_express=True,
        enable_partitioning=bus.is_partitioned,
        lock_duration=timedelta(seconds=13),
        max_delivery_count=14,
        max_size_in_megabytes=3072,
        forward_to=target,
        forward_dead_lettered_messages_to=target,
        user_metadata="who made <this> & why",
    )
    shown = client.get_queue(name)
    assert shown.auto_delete_on_idle == timedelta(minutes=10, seconds=1)
    assert shown.dead_lettering_on_message_expiration is True
    assert shown.default_message_time_to_live == timedelta(minutes=11)
    assert shown.duplicate_detection_history_time_window == timedelta(minutes=12)
    assert (shown.enable_batched_operations, shown.enable_express) == (False, True)
    assert (shown.lock_duration, shown.max_delivery_count) == (timedelta(seconds=13), 14)
    assert shown.max_size_in_megabytes == 3072 * (16 if bus.is_partitioned else 1)
    assert shown.forward_to.endswith(f"/{target}")
    assert shown.forward_dead_lettered_messages_to.endswith(f"/{target}")
    assert shown.user_metadata == "who made <this> & why"
    [rule] = shown.authorization_rules
    assert (rule.key_name, rule.primary_key) == ("mine", "a-primary-key-of-its-own")
    shown.forward_to = None
    shown.forward_dead_lettered_messages_to = None
    shown.status = EntityStatus.SEND_DISABLED
    shown.default_message_time_to_live = "PT16M"
    with pytest.raises(HttpResponseError, match="SubCode=40000"):
        client.update_queue(shown, enable_express=False)
    client.update_queue(shown, max_delivery_count=15)
    changed = client.get_queue(name)
    assert (changed.forward_to, changed.forward_dead_lettered_messages_to) == (None, None)
    assert (changed.status, changed.enable_express) == ("SendDisabled", True)
    assert (changed.max_delivery_count, changed.lock_duration) == (15, timedelta(seconds=13))
    assert changed.default_message_time_to_live == timedelta(minutes=16)
    assert changed.max_size_in_megabytes == shown.max_size_in_megabytes
    assert [each.key_name for each in changed.authorization_rules] == ["mine"]
    client.update_queue(dict(changed), user_metadata="other")
    assert client.get_queue(name).user_metadata == "other"
    client.delete_queue(name)


@administration
@pytest.mark.spec("R7.2")
def a_queue_tells_what_it_holds(bus: Bus, client: Any) -> None:
    bus.send(*[ServiceBusMessage(b"x" * 100) for _ in range(3)])
    with bus.receiver() as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=10)
        receiver.dead_letter_message(message)
    with bus.sender() as sender:
        sender.schedule_messages([ServiceBusMessage(b"later")], datetime(2090, 1, 1))  # noqa: DTZ001 - as its users write it
    shown = client.get_queue_runtime_properties(bus.queue)
    assert shown.total_message_count == 4
    assert (shown.active_message_count, shown.scheduled_message_count) == (2, 1)
    assert shown.dead_letter_message_count == 1
    assert (shown.transfer_message_count, shown.transfer_dead_letter_message_count) == (0, 0)
    assert shown.size_in_bytes > 300
    assert shown.created_at_utc is not None
    assert shown.updated_at_utc is not None
    assert shown.accessed_at_utc is not None


@administration
def all_queues_and_topics_are_listed(bus: Bus, client: Any) -> None:
    names = [f"{bus.queue}/listed{number}" for number in range(3)]
    topics = [f"{bus.queue}-listed{number}" for number in range(3)]
    for name, topic in zip(names, topics, strict=True):
        client.create_queue(name)
        client.create_topic(topic)

    def listed(found: Any, wanted: list[str]) -> bool:
        # Pages are counted from the beginning, and others make and delete entities meanwhile.
        return [each.name for each in found if each.name in wanted] == wanted

    until(lambda: listed(client.list_queues(max_page_size=10), names))
    until(lambda: listed(client.list_topics(max_page_size=10), topics))
    until(lambda: listed(client.list_queues_runtime_properties(), names))
    until(lambda: listed(client.list_topics_runtime_properties(), topics))
    for name, topic in zip(names, topics, strict=True):
        client.delete_queue(name)
        client.delete_topic(topic)
    assert not set(names) & {queue.name for queue in client.list_queues()}


@administration
def a_list_comes_in_pages(bus: Bus, client: Any) -> None:
    topic = f"{bus.queue}-paged"
    names = [f"s{number}" for number in range(5)]
    client.create_topic(topic)
    for name in names:
        client.create_subscription(topic, name)
    for size in (1, 2, 4, 5, 100):
        found = client.list_subscriptions(topic, max_page_size=size)
        assert [each.name for each in found] == names
    client.delete_topic(topic)


@administration
@pytest.mark.spec("R1.3")
def a_topic_lives_from_its_creation_to_its_end(bus: Bus, client: Any) -> None:
    name = f"{bus.queue}-topic"
    client.create_topic(
        name,
        default_message_time_to_live=timedelta(minutes=11),
        max_size_in_megabytes=2048,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=12),
        enable_batched_operations=False,
        authorization_rules=[_authorization_rule()],
        auto_delete_on_idle=timedelta(minutes=13),
        enable_partitioning=bus.is_partitioned,
        user_metadata="a topic",
    )
    shown = client.get_topic(name)
    assert shown.default_message_time_to_live == timedelta(minutes=11)
    assert shown.max_size_in_megabytes == 2048 * (16 if bus.is_partitioned else 1)
    assert shown.requires_duplicate_detection is True
    assert shown.duplicate_detection_history_time_window == timedelta(minutes=12)
    assert shown.enable_batched_operations is False
    assert shown.enable_partitioning is bus.is_partitioned
    assert shown.support_ordering is not bus.is_partitioned
    assert shown.user_metadata == "a topic"
    client.update_topic(shown, default_message_time_to_live="PT21M")
    changed = client.get_topic(name)
    assert changed.default_message_time_to_live == timedelta(minutes=21)
    assert changed.max_size_in_megabytes == shown.max_size_in_megabytes
    client.create_subscription(name, "s")
    runtime = client.get_topic_runtime_properties(name)
    assert (runtime.subscription_count, runtime.scheduled_message_count) == (1, 0)
    assert runtime.size_in_bytes == 0
    client.delete_topic(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_topic(name)
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription(name, "s")


@administration
def a_subscription_lives_from_its_creation_to_its_end(bus: Bus, client: Any) -> None:
    topic = f"{bus.queue}/topic"
    client.create_topic(topic, enable_partitioning=bus.is_partitioned)
    client.create_subscription(
        topic,
        "s",
        lock_duration=timedelta(seconds=13),
        requires_session=False,
        default_message_time_to_live=timedelta(minutes=11),
        dead_lettering_on_message_expiration=True,
        dead_lettering_on_filter_evaluation_exceptions=False,
        max_delivery_count=14,
        enable_batched_operations=False,
        forward_to=bus.queue,
        forward_dead_lettered_messages_to=bus.queue,
        user_metadata="a subscription",
        auto_delete_on_idle="PT15M",
    )
    shown = client.get_subscription(topic, "s")
    assert shown.lock_duration == timedelta(seconds=13)
    assert shown.default_message_time_to_live == timedelta(minutes=11)
    assert shown.dead_lettering_on_message_expiration is True
    assert shown.dead_lettering_on_filter_evaluation_exceptions is False
    assert (shown.max_delivery_count, shown.enable_batched_operations) == (14, False)
    assert shown.auto_delete_on_idle == timedelta(minutes=15)
    assert shown.forward_to.endswith(f"/{bus.queue}")
    shown.forward_to = None
    shown.forward_dead_lettered_messages_to = None
    client.update_subscription(topic, shown, max_delivery_count=3)
    changed = client.get_subscription(topic, "s")
    assert (changed.forward_to, changed.max_delivery_count) == (None, 3)
    assert changed.user_metadata == "a subscription"
    client.create_subscription(topic, "second")
    assert [each.name for each in client.list_subscriptions(topic)] == ["s", "second"]
    with bus.client() as messaging, messaging.get_topic_sender(topic) as sender:
        sender.send_messages(ServiceBusMessage(b"published"))
    counts = client.get_subscription_runtime_properties(topic, "s")
    assert (counts.active_message_count, counts.total_message_count) == (1, 1)
    listed = list(client.list_subscriptions_runtime_properties(topic))
    assert [each.active_message_count for each in listed] == [1, 1]
    with (
        bus.client() as messaging,
        messaging.get_subscription_receiver(topic, "second") as receiver,
    ):
        receive_all(receiver, 1)
    with pytest.raises(ResourceExistsError):
        client.create_subscription(topic, "s")
    client.delete_subscription(topic, "s")
    with pytest.raises(ResourceNotFoundError):
        client.get_subscription(topic, "s")
    client.delete_topic(topic)


@administration
def rules_are_made_shown_changed_and_deleted(bus: Bus, client: Any) -> None:
    topic = f"{bus.queue}-ruled"
    client.create_topic(topic, enable_partitioning=bus.is_partitioned)
    client.create_subscription(topic, "s")
    properties: dict[str, Any] = {
        "text": "a <b> & c",
        "short": 2,
        "long": 2**40,
        "real": 2.5,
        "truth": False,
        "moment": datetime(2020, 7, 5, 11, 12, 13),  # noqa: DTZ001 - as its users write it
        "span": timedelta(days=1, hours=2, minutes=3),
    }
    moment: dict[str, Any] = {"@at": datetime(2020, 7, 5, 11, 12, 13)}  # noqa: DTZ001 - as its users write it
    client.create_rule(
        topic,
        "s",
        "correlation",
        filter=CorrelationRuleFilter(correlation_id="c", label="l", properties=properties),
        action=SqlRuleAction("SET Priority = @at", parameters=moment),
    )
    shown = client.get_rule(topic, "s", "correlation")
    assert isinstance(shown.filter, CorrelationRuleFilter)
    assert (shown.filter.correlation_id, shown.filter.label) == ("c", "l")
    assert shown.filter.properties == properties
    assert shown.action.sql_expression == "SET Priority = @at"
    assert shown.action.parameters == moment
    sql = SqlRuleFilter("Priority = @low AND Level < @two", parameters={"@low": "x", "@two": 2})
    client.create_rule(topic, "s", "sql", filter=sql)
    found = client.get_rule(topic, "s", "sql")
    assert isinstance(found.filter, SqlRuleFilter)
    assert found.filter.parameters == {"@low": "x", "@two": 2}
    assert found.action is None
    client.create_rule(topic, "s", "all")
    assert isinstance(client.get_rule(topic, "s", "all").filter, TrueRuleFilter)
    client.create_rule(topic, "s", "none", filter=FalseRuleFilter())
    assert isinstance(client.get_rule(topic, "s", "none").filter, FalseRuleFilter)
    listed = [rule.name for rule in client.list_rules(topic, "s")]
    assert listed == ["$Default", "all", "correlation", "none", "sql"]
    with pytest.raises(ResourceExistsError):
        client.create_rule(topic, "s", "sql", filter=sql)
    found.filter = CorrelationRuleFilter(correlation_id="other")
    found.action = SqlRuleAction("SET Priority = 'low'")
    client.update_rule(topic, "s", found)
    changed = client.get_rule(topic, "s", "sql")
    assert changed.filter.correlation_id == "other"
    assert changed.action.sql_expression == "SET Priority = 'low'"
    client.update_rule(topic, "s", changed, action=None)
    assert client.get_rule(topic, "s", "sql").action is None
    client.delete_rule(topic, "s", "$Default")
    client.delete_rule(topic, "s", "sql")
    with pytest.raises(ResourceNotFoundError):
        client.get_rule(topic, "s", "sql")
    client.delete_topic(topic)


@administration
def the_namespace_tells_what_it_is(_: Bus, client: Any) -> None:
    shown = client.get_namespace_properties()
    assert (shown.name, shown.messaging_sku) == ("sbemulatorns", "Standard")
    assert shown.namespace_type == "Messaging"
    assert shown.created_at_utc <= shown.modified_at_utc


@administration
@pytest.mark.spec("R1.3")
def what_cannot_be_is_refused(bus: Bus, client: Any) -> None:
    name = f"{bus.queue}-refused"
    with pytest.raises(HttpResponseError, match="LockDuration"):
        client.create_queue(name, lock_duration=timedelta(days=25))
    with pytest.raises(HttpResponseError, match="SubCode=40000"):
        client.create_queue(name, forward_to="nowhere")
    with pytest.raises(HttpResponseError):
        client.create_queue("not a name")
    with pytest.raises(ResourceNotFoundError):
        client.get_queue(name)
    made = client.create_queue(name, enable_partitioning=bus.is_partitioned)
    made.enable_partitioning = not bus.is_partitioned
    with pytest.raises(HttpResponseError, match="chosen at creation"):
        client.update_queue(made)
    made.enable_partitioning = bus.is_partitioned
    with pytest.raises(HttpResponseError, match="chosen at creation"):
        client.update_queue(made, requires_session=True)
    made.name = f"{name}-missing"
    with pytest.raises(ResourceNotFoundError):
        client.update_queue(made)
    client.delete_queue(name)


@administration
def a_wrong_key_opens_nothing(bus: Bus, client: Any) -> None:
    del client
    for opened in OPENERS.values():
        with opened(bus, "another") as stranger, pytest.raises(ClientAuthenticationError):
            list(stranger.list_queues())


def _authorization_rule() -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=[AccessRights.SEND, AccessRights.LISTEN],
        key_name="mine",
        primary_key="a-primary-key-of-its-own",
        secondary_key="a-secondary-key-of-its-own",
    )
