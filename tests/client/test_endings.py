"""How a broker can end a connection, a session, a link or a message, and what the client says."""

import pytest

from bendybus.amqp.outcomes import AmqpError, Modified, Released
from bendybus.amqp.session import LinkRole
from bendybus.client.connection import MESSAGE_BYTES_MAX
from bendybus.client.errors import (
    ClientClosed,
    ClientError,
    ConnectionLost,
    LinkLost,
    MessageTooLarge,
    ServerBusy,
    error_of,
)
from bendybus.client.message import Message
from bendybus.client.receiving import Receiving
from bendybus.client.sending import Sending
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import ScriptedBroker

LATER = 30.0


def attached(*brokers: ScriptedBroker) -> tuple[MemoryShell, Sending]:
    """Return a sender that is attached, and no broker to go to unless more are given."""
    shell = MemoryShell(*brokers)
    sending = Sending(shell.connector, "orders")
    shell.run(sending.attached(LATER))
    return shell, sending


@pytest.mark.amqp("2.4.3")
def test_a_broker_that_stops_says_so_and_the_next_call_connects_again() -> None:
    shell, sending = attached(first := ScriptedBroker(), second := ScriptedBroker())
    connection = shell.connector.connection
    assert connection is not None
    first.amqp.close(AmqpError("amqp:connection:forced", "The broker is stopping.", {}))
    shell.exchange()
    assert isinstance(connection.failure, ConnectionLost)
    assert connection.failure.condition == "amqp:connection:forced"
    assert connection.is_over
    shell.run(sending.send([Message(b"a")], LATER))
    assert len(second.messages) == 1


@pytest.mark.amqp("2.5.5")
def test_a_session_that_ends_takes_its_connection_with_it() -> None:
    shell, sending = attached(first := ScriptedBroker(), second := ScriptedBroker())
    first.links["orders"].session.end(AmqpError("amqp:session:window-violation", "Too much.", {}))
    shell.exchange()
    shell.run(sending.send([Message(b"a")], LATER))
    assert len(second.messages) == 1


def test_bytes_that_are_no_amqp_end_the_connection() -> None:
    shell, _ = attached(ScriptedBroker())
    connection = shell.connector.connection
    assert connection is not None
    connection.receive_data(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert isinstance(connection.failure, ClientError)
    assert connection.failure.condition == "amqp:connection:framing-error"
    assert connection.failure.is_retryable


@pytest.mark.amqp("2.4.5")
def test_a_broker_that_falls_silent_is_given_up() -> None:
    shell, _ = attached(ScriptedBroker())
    connection = shell.connector.connection
    assert connection is not None
    heartbeats = 0
    for minute in range(4):
        connection.tick(minute * 60_000)
        heartbeats += bool(connection.data_to_send())
        assert connection.is_usable()
    assert heartbeats > 0
    connection.tick(5 * 60_000)
    assert isinstance(connection.failure, ConnectionLost)
    assert connection.failure.is_retryable


def test_a_link_that_is_forced_off_is_attached_again() -> None:
    shell, sending = attached(broker := ScriptedBroker())
    broker.links["orders"].detach(AmqpError("amqp:link:detach-forced", "Idle.", {}))
    shell.exchange()
    shell.run(sending.send([Message(b"a")], LATER))
    assert len(broker.messages) == 1
    assert len(shell.attempts) == 1


def test_a_link_that_ends_during_a_send_leaves_it_unknown() -> None:
    shell, sending = attached(broker := ScriptedBroker())
    broker.answers_messages = False
    step = sending.send([Message(b"a")], LATER)
    next(step)
    shell.exchange()
    broker.links["orders"].detach()
    shell.exchange()
    with pytest.raises(LinkLost, match="no reason") as failure:
        step.send(0.0)
    assert failure.value.is_retryable


@pytest.mark.parametrize("outcome", [Released(), Modified()])
def test_a_message_that_is_neither_accepted_nor_rejected_was_not_taken(outcome: object) -> None:
    shell, sending = attached(broker := ScriptedBroker())
    broker.outcomes.append(outcome)
    with pytest.raises(ServerBusy, match=type(outcome).__name__.lower()):
        shell.run(sending.send([Message(b"a")], LATER))


def test_a_message_larger_than_any_ends_the_link_and_not_the_client() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    receiving = Receiving(shell.connector, "orders", is_deleting=False, prefetch=0)
    end = shell.run(receiving.attached(LATER))
    assert end.link.message_size_max == MESSAGE_BYTES_MAX
    end.link.message_size_max = 1000
    broker.to_deliver.append(Message(b"x" * 2000).encode())
    with pytest.raises(MessageTooLarge):
        shell.run(receiving.receive(1, LATER, LATER))


def test_a_link_that_the_broker_asks_for_is_refused() -> None:
    shell, sending = attached(broker := ScriptedBroker())
    session = broker.links["orders"].session
    link = session.attach("unasked", LinkRole.SENDER, source=None, target=None)
    shell.exchange()
    assert not link.is_open
    shell.run(sending.send([Message(b"a")], LATER))


def test_a_closed_sender_and_a_closed_receiver_refuse_to_go_on() -> None:
    shell, sending = attached(broker := ScriptedBroker())
    shell.run(sending.close())
    assert len(broker.detached) == 1
    with pytest.raises(ClientClosed, match="sender"):
        shell.run(sending.send([Message(b"a")], LATER))
    receiving = Receiving(shell.connector, "orders", is_deleting=False, prefetch=0)
    shell.run(receiving.close(LATER))
    with pytest.raises(ClientClosed, match="receiver"):
        shell.run(receiving.receive(1, LATER, LATER))


def test_a_condition_that_nobody_knows_keeps_its_name() -> None:
    error = error_of(AmqpError("vendor:odd", None, {}))
    assert type(error) is ClientError
    assert (error.condition, error.description) == ("vendor:odd", "vendor:odd")
    assert not error.is_retryable
