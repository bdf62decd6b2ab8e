"""Both clients get over the death of the broker: a real process, killed and started again."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from bendybus.client import Message
from bendybus.client.errors import ConnectionLost, PartlyFailed
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.client.both_shells import client_of, until

SOON = 20.0
QUEUES = [
    {"Name": "orders", "Properties": {"LockDuration": "PT5M"}},
    {"Name": "aside", "Properties": {}},
    {"Name": "parts", "Properties": {"LockDuration": "PT5M", "EnablePartitioning": True}},
]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker in a process of its own."""
    folder = tmp_path_factory.mktemp("broker")
    config = folder / "config.json"
    namespace = {"Name": "sbemulatorns", "Queues": QUEUES, "Topics": []}
    config.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}))
    with broker_process(config, folder=folder) as broker:
        yield broker


# Never in a thread of their own: the broker ends with the thread that started it.


def kill_and_start(process: BrokerProcess) -> None:
    """End the broker as a power cut would, and start it again on the same port."""
    process.kill()
    process.start()


async def stop_and_start(process: BrokerProcess) -> None:
    """Ask the broker to stop, which its clients must hear, and start it again on the same port."""
    await asyncio.to_thread(process.stop)
    process.start()


async def test_senders_and_receivers_go_on_after_a_kill(process: BrokerProcess, shell: str) -> None:
    async with client_of(shell, process.connection_string()) as client:
        sender, receiver = client.sender("parts"), client.receiver("parts")
        await sender.send(Message(b"before"))
        [message] = await receiver.receive(1, SOON)
        await receiver.complete(message)
        kill_and_start(process)
        if shell == "asynchronous":
            # The loop stood still meanwhile; a send before it hears of the loss would be lost.
            await until(lambda: client._connector.connection.failure)
        await sender.send(Message(b"after"))
        [message] = await receiver.receive(1, SOON)
        assert message.body == b"after"
        await receiver.complete(message)


async def test_a_receiver_that_waits_does_not_notice_that_the_broker_died(
    process: BrokerProcess, shell: str
) -> None:
    async with (
        client_of(shell, process.connection_string()) as waiter,
        client_of(shell, process.connection_string()) as other,
    ):
        receiver = waiter.receiver("parts")
        assert await receiver.receive(1, 0) == []
        waiting = asyncio.ensure_future(receiver.receive(1, None))
        kill_and_start(process)
        await other.sender("parts").send(Message(b"at last"))
        async with asyncio.timeout(SOON):
            [message] = await waiting
        await receiver.complete(message)


async def test_what_a_killed_broker_accepted_is_still_there(
    process: BrokerProcess, shell: str, queue: str
) -> None:
    messages = [Message(b"%d" % number) for number in range(20_000)]
    async with (
        client_of(shell, process.connection_string()) as client,
        client_of(shell, process.connection_string()) as other,
    ):
        sending = asyncio.ensure_future(client.sender(queue).send(messages))
        receiver = other.receiver(queue, prefetch=2000)
        async with asyncio.timeout(SOON):
            while not await receiver.peek():
                continue
        kill_and_start(process)
        with pytest.raises(PartlyFailed) as failure:
            await sending
        found: set[int] = set()
        while some := await receiver.receive(2000, 0):
            found |= {int(each.body) for each in some}
            await receiver.complete(some)
    assert failure.value.is_retryable
    assert not failure.value.refused
    assert set(failure.value.done) <= found
    assert found <= set(failure.value.done) | set(failure.value.unknown)


async def test_a_lock_outlives_the_connection_and_its_message_can_still_be_completed(
    process: BrokerProcess, shell: str
) -> None:
    async with client_of(shell, process.connection_string()) as client:
        await client.sender("parts").send(Message(b"a"))
        receiver = client.receiver("parts")
        [message] = await receiver.receive(1, SOON)
        await stop_and_start(process)
        await receiver.complete(message)
        assert await receiver.peek() == []


async def test_a_broker_that_stays_away_is_an_error_that_says_where(
    process: BrokerProcess, shell: str
) -> None:
    async with client_of(shell, process.connection_string(), timeout=0.5) as client:
        sender = client.sender("aside")
        await sender.send(Message(b"a"))
        process.kill()
        try:
            with pytest.raises(ConnectionLost, match=f"localhost:{process.amqp_port}") as failure:
                await sender.send(Message(b"a"))
            assert failure.value.is_retryable
        finally:
            process.start()
