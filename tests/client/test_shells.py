"""What only sockets can show: both shells over TCP and TLS, and what each alone can do."""

import asyncio
import inspect
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bendybus import client as package
from bendybus.amqp.outcomes import Declare, Discharge
from bendybus.amqp.values import AmqpArray, Long, Timestamp
from bendybus.client import AsyncClient, Client, Message, async_io, blocking_io
from bendybus.client.errors import ClientClosed, ConnectionLost, NotTrusted, PartlyFailed
from tests.client.both_shells import client_of, until
from tests.client.scripted_broker import TRANSACTION_ID, ScriptedBroker
from tests.client.scripted_server import serving_script

CERTIFICATE = Path(__file__).with_name("certificate.pem")
SOON = 10.0

COMMIT = Discharge(TRANSACTION_ID, fail=False)
ROLL_BACK = Discharge(TRANSACTION_ID, fail=True)


class Mishap(Exception):
    """Something of the program's own."""


async def send_and_fail(client: Any) -> None:
    async with client.transaction() as transaction:
        await transaction.send(client.sender("orders"), Message(b"out"))
        raise Mishap


def stocked() -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.to_deliver.append(Message(b"in").encode())
    return broker


async def test_a_block_that_ends_well_commits_its_transaction(shell: str) -> None:
    async with serving_script(stocked) as server:
        async with client_of(shell, server.connection_string()) as client:
            sender, receiver = client.sender("orders"), client.receiver("orders")
            [message] = await receiver.receive(1, SOON)
            async with client.transaction() as transaction:
                await transaction.send(sender, Message(b"out"))
                await transaction.complete(receiver, message)
        assert server.brokers[0].transactions == [Declare(), COMMIT]
        assert len(server.brokers[0].messages) == 1
        assert len(server.brokers[0].settlements) == 1


async def test_a_block_that_raises_rolls_its_transaction_back(shell: str) -> None:
    async with serving_script() as server:
        async with client_of(shell, server.connection_string()) as client:
            with pytest.raises(Mishap):
                await send_and_fail(client)
        assert server.brokers[0].transactions == [Declare(), ROLL_BACK]


@pytest.mark.parametrize("name", ["abandon", "defer", "dead_letter"])
async def test_every_outcome_can_be_part_of_a_transaction(shell: str, name: str) -> None:
    async with serving_script(stocked) as server:
        async with client_of(shell, server.connection_string()) as client:
            receiver = client.receiver("orders")
            [message] = await receiver.receive(1, SOON)
            async with client.transaction() as transaction:
                await getattr(transaction, name)(receiver, message)
        assert server.brokers[0].transactions[-1] == COMMIT


async def test_senders_and_receivers_are_closed_by_their_blocks() -> None:
    async with serving_script(stocked) as server:
        text = server.connection_string()
        async with (
            AsyncClient.from_connection_string(text) as client,
            client.sender("orders") as sender,
            client.receiver("orders") as receiver,
        ):
            await sender.send(Message(b"out"))
            async for message in receiver:
                await receiver.defer(message)
                break
        await asyncio.to_thread(use_in_blocks, text)
        assert [len(broker.detached) for broker in server.brokers] == [2, 2]
        assert [len(broker.settlements) for broker in server.brokers] == [1, 1]


def use_in_blocks(connection_string: str) -> None:
    with (
        Client.from_connection_string(connection_string) as client,
        client.sender("orders") as sender,
        client.receiver("orders") as receiver,
    ):
        sender.send(Message(b"out"))
        for message in receiver:
            receiver.defer(message)
            break


async def test_a_session_is_accepted_and_closed_by_either_client(shell: str) -> None:
    async with serving_script() as server:
        async with client_of(shell, server.connection_string()) as client:
            receiver = await client.accept_session("orders", "s1", timeout=SOON)
            assert receiver.session_id == "s1"
            await receiver.close()
        assert len(server.brokers[0].detached) == 1


async def test_more_than_the_socket_takes_at_once_is_sent_whole(shell: str) -> None:
    async with (
        serving_script() as server,
        client_of(shell, server.connection_string()) as client,
    ):
        await client.sender("orders").send([Message(bytes(250_000))] * 80)
        assert len(server.brokers[0].messages) == 80


async def test_a_broker_that_does_not_read_is_given_up(
    shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_io, "STALLED_SECONDS_MAX", 0.2)
    monkeypatch.setattr(async_io, "STALLED_SECONDS_MAX", 0.2)
    async with (
        serving_script() as server,
        client_of(shell, server.connection_string()) as client,
    ):
        sender = client.sender("orders")
        await sender.send(Message(b"a"))
        for transport in server.transports:
            transport.pause_reading()
        with pytest.raises(PartlyFailed, match="read nothing for") as failure:
            await sender.send([Message(bytes(250_000))] * 80)
        assert failure.value.is_retryable
        assert not failure.value.done


async def test_every_operation_by_request_reaches_the_broker(shell: str) -> None:
    at = Timestamp(1_000)
    answers: dict[str, object] = {
        "schedule-message": {"sequence-numbers": AmqpArray(Long, (Long(7),))},
        "cancel-scheduled-message": None,
        "receive-by-sequence-number": {"messages": []},
        "renew-session-lock": {"expiration": at},
        "get-session-state": {"session-state": b"half-way"},
        "set-session-state": None,
        "get-message-sessions": {"sessions-ids": AmqpArray(str, ("s1",))},
    }

    def managed() -> ScriptedBroker:
        broker = ScriptedBroker()
        for name, body in answers.items():
            broker.operations[name] = lambda _, body=body: (200, body)  # type: ignore[misc]  # a default is no argument
        return broker

    async with (
        serving_script(managed) as server,
        client_of(shell, server.connection_string()) as client,
    ):
        sender, receiver = client.sender("orders"), client.receiver("orders")
        session = await client.accept_session("orders", "s1", timeout=SOON)
        assert await sender.schedule(Message(b"a", scheduled_time=datetime.now(UTC))) == [7]
        await sender.cancel_scheduled([7])
        assert await receiver.receive_deferred([7]) == []
        assert await session.renew_session_lock() == session.locked_until
        assert await session.state() == b"half-way"
        await session.set_state(None)
        assert await client.sessions("orders") == ["s1"]
        await sender.close()
        assert [name for name, _ in server.brokers[0].requests] == list(answers)


async def test_tls_is_spoken_unless_the_development_flag_is_set(shell: str) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(CERTIFICATE)
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    body = b"x" * 300_000
    async with serving_script(tls=server_side) as server:
        async with client_of(shell, server.connection_string(flag="false"), tls=trusting) as client:
            await client.sender("orders").send([Message(body)] * 3)
        assert [len(each.payload) > len(body) for each in server.brokers[0].messages] == [True] * 3


async def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(shell: str) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(CERTIFICATE)
    async with (
        serving_script(tls=server_side) as server,
        client_of(shell, server.connection_string(flag="false")) as client,
        asyncio.timeout(SOON),
    ):
        with pytest.raises(NotTrusted, match="cannot be trusted") as failure:
            await client.sender("orders").send(Message(b"a"))
        assert not failure.value.is_retryable


async def test_a_host_without_a_name_is_refused_at_once(shell: str) -> None:
    text = "Endpoint=sb://nowhere.invalid;SharedAccessKeyName=r;SharedAccessKey=k"
    async with client_of(shell, text) as client, asyncio.timeout(SOON):
        with pytest.raises(ConnectionLost, match=r"nowhere\.invalid:5671") as failure:
            await client.sender("orders").send(Message(b"a"))
    assert not failure.value.is_retryable


async def test_a_connection_that_ended_between_calls_is_made_again(shell: str) -> None:
    async with serving_script() as server:
        async with client_of(shell, server.connection_string()) as client:
            sender = client.sender("orders")
            await sender.send(Message(b"a"))
            server.hang_up()
            await until(lambda: not server.transports)
            if shell == "asynchronous":
                await until(lambda: client._connector.connection.failure)
            await sender.send(Message(b"b"))
        assert [len(broker.messages) for broker in server.brokers] == [1, 1]


async def test_a_connection_that_ends_during_a_send_is_reported(shell: str) -> None:
    def silent() -> ScriptedBroker:
        broker = ScriptedBroker()
        broker.answers_messages = False
        return broker

    async with (
        serving_script(silent) as server,
        client_of(shell, server.connection_string()) as client,
    ):
        sending = asyncio.ensure_future(client.sender("orders").send(Message(b"a")))
        await until(lambda: server.brokers and server.brokers[0].messages)
        server.hang_up()
        with pytest.raises(ConnectionLost):
            await sending


async def test_tasks_that_start_together_share_one_connection() -> None:
    async with serving_script() as server:
        async with AsyncClient.from_connection_string(server.connection_string()) as client:
            senders = [client.sender(f"queue-{number % 5}") for number in range(50)]
            await asyncio.gather(*(sender.send(Message(b"a")) for sender in senders))
        assert len(server.brokers) == 1
        assert len(server.brokers[0].messages) == 50


async def test_a_task_that_is_cancelled_while_connecting_does_not_hold_up_the_others() -> None:
    async with (
        serving_script() as server,
        client_of("asynchronous", server.connection_string()) as client,
    ):
        first = asyncio.create_task(client.sender("orders").send(Message(b"a")))
        second = asyncio.create_task(client.sender("orders").send(Message(b"b")))
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(SOON):
            await second
        assert first.cancelled()


async def test_a_receive_that_is_cancelled_loses_nothing() -> None:
    async with (
        serving_script() as server,
        client_of("asynchronous", server.connection_string()) as client,
    ):
        receiver = client.receiver("orders")
        waiting = asyncio.create_task(receiver.receive(1))
        await until(lambda: server.hears("from orders"))
        waiting.cancel()
        await asyncio.wait([waiting])
        server.brokers[0].to_deliver.append(Message(b"a").encode())
        [message] = await receiver.receive(1, 0)
        assert message.body == b"a"


async def test_closing_wakes_a_task_that_waits() -> None:
    async with (
        serving_script() as server,
        client_of("asynchronous", server.connection_string()) as client,
    ):
        waiting = asyncio.create_task(client.receiver("orders").receive(1))
        await until(lambda: server.hears("from orders"))
        await client.close()
        async with asyncio.timeout(SOON):
            with pytest.raises(ClientClosed):
                await waiting


def test_a_blocking_client_that_was_never_used_closes_without_connecting() -> None:
    text = "Endpoint=sb://nowhere.invalid;SharedAccessKeyName=r;SharedAccessKey=k"
    with Client.from_connection_string(text) as client:
        client.sender("orders")
        client.receiver("orders")


@pytest.mark.parametrize("name", ["Client", "Sender", "Receiver", "SessionReceiver", "Transaction"])
def test_both_clients_offer_the_same_calls(name: str) -> None:
    blocking, asynchronous = getattr(package, name), getattr(package, f"Async{name}")
    calls = public_calls(blocking)
    assert calls == public_calls(asynchronous)
    assert calls


def public_calls(kind: Any) -> dict[str, list[str]]:
    """Return the parameters of every public method."""
    return {
        name: list(inspect.signature(method).parameters)
        for name, method in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }
