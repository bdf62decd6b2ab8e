"""Entities that are changed while the client has links to them: what it makes of that."""

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import (
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
)
from azure.servicebus.management import EntityStatus

from tests.compat.python.administration import over_http
from tests.compat.python.scenario import Bus, numbered, receive_all, scenario

# The client learns why its link has ended when it asks for it again, which it does by itself.
SOON = {"retry_total": 2, "retry_backoff_factor": 0.05}


@pytest.mark.spec("R7.1")
@scenario()
def a_receiver_is_told_that_its_queue_is_gone(bus: Bus) -> None:
    with (
        over_http(bus) as administrator,
        bus.client(**SOON) as client,
        client.get_queue_receiver(bus.queue) as receiver,
    ):
        assert receiver.receive_messages(max_wait_time=1) == []
        administrator.delete_queue(bus.queue)
        with pytest.raises((MessagingEntityNotFoundError, ServiceBusAuthenticationError)):
            receiver.receive_messages(max_wait_time=10)


@pytest.mark.spec("R7.1")
@scenario()
def a_sender_is_told_that_its_queue_is_gone(bus: Bus) -> None:
    with (
        over_http(bus) as administrator,
        bus.client(**SOON) as client,
        client.get_queue_sender(bus.queue) as sender,
    ):
        sender.send_messages(numbered(1))
        administrator.delete_queue(bus.queue)
        with pytest.raises((MessagingEntityNotFoundError, ServiceBusAuthenticationError)):
            sender.send_messages(ServiceBusMessage(b"too late"))


@pytest.mark.spec("R7.1")
@scenario()
def a_sender_of_a_queue_that_is_disabled_is_told_and_goes_on_when_it_is_not(bus: Bus) -> None:
    with over_http(bus) as administrator, bus.client(**SOON) as client:
        properties = administrator.get_queue(bus.queue)
        with client.get_queue_sender(bus.queue) as sender:
            sender.send_messages(numbered(1))
            properties.status = EntityStatus.SEND_DISABLED
            administrator.update_queue(properties)
            with pytest.raises(MessagingEntityDisabledError):
                sender.send_messages(ServiceBusMessage(b"not now"))
            properties.status = EntityStatus.ACTIVE
            administrator.update_queue(properties)
            sender.send_messages(ServiceBusMessage(b"again"))
        with client.get_queue_receiver(bus.queue) as receiver:
            assert len(receive_all(receiver, 2)) == 2
