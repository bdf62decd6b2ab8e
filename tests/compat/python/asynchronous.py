"""The asynchronous client, which has its own code for nearly everything."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import AutoLockRenewer, ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    ServiceBusAuthenticationError,
    SessionCannotBeLockedError,
)

from tests.compat.cases import CONVENTIONAL
from tests.compat.python.scenario import (
    FIRST,
    WAIT_SECONDS_MAX,
    Bus,
    awaits_settlements,
    bodies,
    body_of,
    numbered,
    numbered_bodies,
    scenario,
)


@asynccontextmanager
async def client_of(bus: Bus, **options: Any) -> AsyncIterator[ServiceBusClient]:
    async with ServiceBusClient.from_connection_string(bus.connection_string, **options) as client:
        yield client


async def send(client: ServiceBusClient, queue: str, messages: list[ServiceBusMessage]) -> None:
    async with client.get_queue_sender(queue) as sender:
        await sender.send_messages(messages)


async def receive(receiver: ServiceBusReceiver, count: int) -> list[ServiceBusReceivedMessage]:
    """Receive exactly so many messages, in as many calls as it takes, if they keep coming."""
    messages: list[ServiceBusReceivedMessage] = []
    while len(messages) < count:
        wanted = count - len(messages)
        arrived = await receiver.receive_messages(wanted, max_wait_time=WAIT_SECONDS_MAX)
        assert arrived, f"{len(messages)} of {count} messages came"
        messages += arrived
    return messages


async def is_empty(receiver: ServiceBusReceiver) -> bool:
    """As the synchronous one: whether the queue holds nothing, now or soon."""
    deadline = time.monotonic() + (0 if awaits_settlements() else WAIT_SECONDS_MAX)
    while await receiver.peek_messages(1, sequence_number=FIRST):
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(0.05)
    return True


@pytest.mark.spec("R8.1")
@scenario()
async def async_messages_are_sent_received_and_settled(bus: Bus) -> None:
    async with client_of(bus) as client:
        await send(client, bus.queue, numbered(3))
        async with client.get_queue_receiver(bus.queue) as receiver:
            held = await receive(receiver, 3)
            assert bodies(held) == numbered_bodies(3)
            await receiver.complete_message(held[0])
            await receiver.abandon_message(held[1])
            await receiver.dead_letter_message(held[2], reason="r", error_description="d")
            [again] = await receive(receiver, 1)
            assert body_of(again) == body_of(held[1])
            assert again.delivery_count == 1
            await receiver.complete_message(again)
            assert await is_empty(receiver)
        async with client.get_queue_receiver(
            bus.queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as dead_letters:
            [dead] = await receive(dead_letters, 1)
            assert (dead.dead_letter_reason, dead.dead_letter_error_description) == ("r", "d")
            await dead_letters.complete_message(dead)


@scenario()
async def async_iterators_yield_everything_and_end(bus: Bus) -> None:
    async with client_of(bus) as client:
        await send(client, bus.queue, numbered(10))
        received = []
        async with client.get_queue_receiver(bus.queue, max_wait_time=2) as receiver:
            async for message in receiver:
                received.append(body_of(message))
                await receiver.complete_message(message)
            assert await is_empty(receiver)
        assert received == numbered_bodies(10)


@scenario()
async def async_batches_and_large_messages_arrive_whole(bus: Bus) -> None:
    large = bytes(range(250)) * 1000
    async with client_of(bus) as client:
        async with client.get_queue_sender(bus.queue) as sender:
            batch = await sender.create_message_batch()
            for message in numbered(50):
                batch.add_message(message)
            await sender.send_messages(batch)
            await sender.send_messages(ServiceBusMessage(large))
        async with client.get_queue_receiver(
            bus.queue,
            receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
            prefetch_count=300,
            max_wait_time=2,
        ) as receiver:
            received = [body_of(message) async for message in receiver]
    assert sorted(received) == sorted([*numbered_bodies(50), large])


@pytest.mark.spec("R3.1")
@scenario()
async def async_receivers_beside_each_other_share_the_messages(bus: Bus) -> None:
    async with client_of(bus) as client:
        for _ in range(8):
            await send(client, bus.queue, numbered(25))

        async def drain() -> list[int | None]:
            numbers = []
            async with client.get_queue_receiver(
                bus.queue, prefetch_count=10, max_wait_time=3
            ) as receiver:
                async for message in receiver:
                    numbers.append(message.sequence_number)
                    await receiver.complete_message(message)
            return numbers

        parts = await asyncio.gather(*(drain() for _ in range(4)))
    numbers = [number for part in parts for number in part]
    assert len(numbers) == len(set(numbers)) == 200


@scenario(LockDuration="PT5S")
async def async_renewer_holds_a_lock_while_work_goes_on(bus: Bus) -> None:
    async with client_of(bus) as client, AutoLockRenewer() as renewer:
        await send(client, bus.queue, numbered(1))
        async with (
            client.get_queue_receiver(bus.queue) as receiver,
            client.get_queue_receiver(bus.queue) as other,
        ):
            [message] = await receive(receiver, 1)
            before = message.locked_until_utc
            assert before is not None
            assert await receiver.renew_message_lock(message) > before
            renewer.register(receiver, message, max_lock_renewal_duration=60)
            assert await other.receive_messages(1, max_wait_time=8) == []
            await receiver.complete_message(message)
            assert await is_empty(other)


@pytest.mark.spec("R4", "R8.1")
@scenario()
async def async_messages_are_scheduled_cancelled_deferred_and_had_back(bus: Bus) -> None:
    async with (
        client_of(bus) as client,
        client.get_queue_sender(bus.queue) as sender,
        client.get_queue_receiver(bus.queue, client_identifier="a name") as receiver,
    ):
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        numbers = await sender.schedule_messages(numbered(2), tomorrow)
        await sender.cancel_scheduled_messages(numbers)
        with pytest.raises(MessageNotFoundError):
            await sender.cancel_scheduled_messages(numbers[0])
        at = datetime.now(UTC) + timedelta(seconds=1)
        await sender.schedule_messages(numbered(1), at)
        [message] = await receive(receiver, 1)
        assert datetime.now(UTC) >= at
        assert body_of(message) == b"message 0"
        number = message.sequence_number
        assert number is not None
        await receiver.defer_message(message)
        if not awaits_settlements():
            await until_deferred(receiver, number)
        [deferred] = await receiver.receive_deferred_messages(number)
        assert deferred.state is ServiceBusMessageState.DEFERRED
        assert body_of(deferred) == b"message 0"
        await receiver.complete_message(deferred)
        assert await is_empty(receiver)


async def until_deferred(receiver: ServiceBusReceiver, number: int) -> None:
    """Wait for a settlement that the client does not wait for."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        [shown] = await receiver.peek_messages(1, sequence_number=number)
        if shown.state is ServiceBusMessageState.DEFERRED:
            return
        assert time.monotonic() < deadline, "it was not deferred"
        await asyncio.sleep(0.05)


@pytest.mark.spec("R3.6", "R4", "R8.1")
@scenario(RequiresSession=True)
async def async_sessions_are_held_in_order_with_a_state(bus: Bus) -> None:
    async with client_of(bus, retry_total=0) as client:
        await send(client, bus.queue, numbered(5, session_id="s"))
        async with client.get_queue_receiver(
            bus.queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=20
        ) as receiver:
            session = receiver.session
            assert session.session_id == "s"
            assert bodies(await receive(receiver, 5)) == numbered_bodies(5)
            await session.set_state(b"half done")
            before = session.locked_until_utc
            assert before is not None
            renewed = await session.renew_lock()
            assert renewed is not None
            assert renewed >= before
            with pytest.raises(SessionCannotBeLockedError):
                async with client.get_queue_receiver(bus.queue, session_id="s"):
                    pass
        async with client.get_queue_receiver(bus.queue, session_id="s") as receiver:
            assert await receiver.session.get_state() == b"half done"
            for message in await receive(receiver, 5):
                assert message.delivery_count == 0
                await receiver.complete_message(message)
            assert await is_empty(receiver)


# Older clients cannot list them.
@pytest.mark.spec("R4", "R8.1")
@scenario(
    kinds=(CONVENTIONAL,),
    Subscriptions=[{"Name": "sessions", "Properties": {"RequiresSession": True}}],
    is_for_newest=True,
)
async def async_topics_reach_their_subscriptions_and_list_their_sessions(bus: Bus) -> None:
    async with client_of(bus) as client:
        async with client.get_topic_sender(bus.queue) as sender:
            await sender.send_messages(numbered(1, session_id="one"))
            await sender.send_messages(numbered(1, session_id="two"))
        listed = [each async for each in client.list_subscription_sessions(bus.queue, "sessions")]
        assert sorted(listed) == ["one", "two"]
        async with client.get_subscription_receiver(
            bus.queue, "sessions", session_id="two"
        ) as receiver:
            [message] = await receive(receiver, 1)
            assert message.session_id == "two"
            await receiver.complete_message(message)


@scenario()
async def async_wrong_key_is_an_authentication_error(bus: Bus) -> None:
    wrong = bus.connection_string.replace("SAS_KEY_VALUE", "wrong")
    async with ServiceBusClient.from_connection_string(wrong, retry_total=0) as client:
        with pytest.raises(ServiceBusAuthenticationError):
            async with client.get_queue_sender(bus.queue):
                pass
