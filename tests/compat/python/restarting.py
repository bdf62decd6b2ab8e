"""The broker goes away and comes back while clients stay: stopped, and killed."""

from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusMessage

from bendybus.testing.broker_process import BrokerProcess
from tests.compat.python import asynchronous
from tests.compat.python.scenario import (
    Bus,
    await_removal,
    bodies,
    is_empty,
    numbered,
    numbered_bodies,
    receive,
    receive_all,
    scenario,
)


@pytest.mark.spec("R8.1")
@scenario(has_own_broker=True)
def clients_find_a_broker_again_that_was_stopped(bus: Bus) -> None:
    _interrupt(bus, BrokerProcess.stop)


@pytest.mark.spec("R8.1")
@scenario(has_own_broker=True)
def clients_find_a_broker_again_that_was_killed(bus: Bus) -> None:
    _interrupt(bus, BrokerProcess.kill)


@scenario(has_own_broker=True)
async def async_clients_find_a_broker_again(bus: Bus) -> None:
    async with (
        asynchronous.client_of(bus) as client,
        client.get_queue_sender(bus.queue) as sender,
        client.get_queue_receiver(bus.queue) as receiver,
    ):
        await sender.send_messages(ServiceBusMessage(b"before"))
        [held] = await asynchronous.receive(receiver, 1)
        await receiver.complete_message(held)
        bus.own_broker.kill()
        bus.own_broker.start()
        await sender.send_messages(ServiceBusMessage(b"after"))
        [message] = await asynchronous.receive(receiver, 1)
        assert bodies([message]) == [b"after"]
        await receiver.complete_message(message)


def _interrupt(bus: Bus, end: Callable[[BrokerProcess], object]) -> None:
    """Sender and receiver go on where they were; locks outlive the broker, too."""
    with bus.sender() as sender, bus.receiver() as receiver:
        sender.send_messages(numbered(3))
        done, held = receive(receiver, 2)
        receiver.complete_message(done)
        await_removal(receiver, done)
        end(bus.own_broker)
        bus.own_broker.start()
        sender.send_messages(ServiceBusMessage(b"message 3"))
        messages = receive_all(receiver, 2)
        assert sorted(bodies([done, held, *messages])) == numbered_bodies(4)
        receiver.complete_message(held)
        assert is_empty(receiver)
