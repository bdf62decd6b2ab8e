"""Transactions, against a coordinator that a test scripts (the broker's side comes later)."""

import pytest

from bendybus.amqp.outcomes import (
    Accepted,
    AmqpError,
    Declare,
    Discharge,
    Rejected,
    TransactionalState,
)
from bendybus.amqp.terminus import Coordinator
from bendybus.client.errors import (
    ConnectionLost,
    MessageLockLost,
    NotServed,
    PartlyFailed,
    QuotaExceeded,
    TransactionFailed,
)
from bendybus.client.message import Message, ReceivedMessage
from bendybus.client.receiving import Receiving
from bendybus.client.sending import Sending
from bendybus.client.settlement import COMPLETE, dead_letter
from bendybus.client.transacting import Transacting
from tests.client.memory_shell import MemoryShell
from tests.client.scripted_broker import TRANSACTION_ID, ScriptedBroker

LATER = 30.0
FULL = AmqpError("amqp:resource-limit-exceeded", "The entity is full.", {})


def declared(shell: MemoryShell) -> Transacting:
    transaction = Transacting(shell.connector)
    shell.run(transaction.begin(LATER))
    return transaction


def received(shell: MemoryShell, broker: ScriptedBroker) -> tuple[Receiving, ReceivedMessage]:
    broker.to_deliver.append(Message(b"in").encode())
    receiving = Receiving(shell.connector, "orders", is_deleting=False, prefetch=0)
    [message] = shell.run(receiving.receive(1, LATER, LATER))
    return receiving, message


@pytest.mark.amqp("4.2", "4.5.2")
def test_a_transaction_is_declared_at_a_coordinator() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    declared(shell)
    assert broker.transactions == [Declare()]
    assert any(isinstance(attach.target, Coordinator) for attach in broker.attaches)


@pytest.mark.amqp("4.4.1", "4.4.2")
def test_sends_and_settlements_carry_the_transaction_and_commit_discharges_it() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    sending = Sending(shell.connector, "orders")
    receiving, message = received(shell, broker)
    transaction = declared(shell)
    shell.run(transaction.part(sending.send([Message(b"out")], LATER, transaction)))
    shell.run(transaction.part(receiving.settle([message], COMPLETE, LATER, transaction)))
    shell.run(transaction.commit(LATER))

    assert [event.state for event in broker.messages] == [TransactionalState(TRANSACTION_ID, None)]
    settled = TransactionalState(TRANSACTION_ID, Accepted())
    assert broker.settlements == [([message.lock_token], settled, False)]
    assert broker.transactions == [Declare(), Discharge(TRANSACTION_ID, fail=False)]


def test_a_batch_can_be_part_of_a_transaction() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    transaction = declared(shell)
    sending = Sending(shell.connector, "orders")
    shell.run(
        transaction.part(sending.send_batch([Message(b"a"), Message(b"b")], LATER, transaction))
    )
    [event] = broker.messages
    assert event.message_format == 0x80013700
    assert event.state == TransactionalState(TRANSACTION_ID, None)


def test_rolling_back_discharges_it_as_failed() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    transaction = declared(shell)
    shell.run(transaction.roll_back(LATER))
    assert broker.transactions == [Declare(), Discharge(TRANSACTION_ID, fail=True)]


def test_a_refused_part_keeps_the_rest_from_being_committed() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    transaction = declared(shell)
    sending = Sending(shell.connector, "orders")
    broker.outcomes.append(Rejected(FULL))
    with pytest.raises(QuotaExceeded):
        shell.run(transaction.part(sending.send([Message(b"a")], LATER, transaction)))
    shell.run(transaction.part(sending.send([Message(b"b")], LATER, transaction)))
    with pytest.raises(TransactionFailed, match="The entity is full"):
        shell.run(transaction.commit(LATER))
    assert broker.transactions[-1] == Discharge(TRANSACTION_ID, fail=True)


def test_a_part_of_many_messages_says_which_were_refused() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    transaction = declared(shell)
    broker.outcomes.extend([Accepted(), Rejected(FULL)])
    sending = Sending(shell.connector, "orders")
    messages = [Message(b"a"), Message(b"b"), Message(b"c")]
    with pytest.raises(PartlyFailed) as failure:
        shell.run(transaction.part(sending.send(messages, LATER, transaction)))
    assert failure.value.done == [0, 2]
    assert list(failure.value.refused) == [1]


@pytest.mark.amqp("4.3")
def test_a_commit_that_the_broker_refuses_is_a_failed_transaction() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    transaction = declared(shell)
    error = AmqpError("amqp:transaction:rollback", "A lock ended.", {})
    broker.discharge_outcome = Rejected(error)
    with pytest.raises(TransactionFailed, match="A lock ended") as failure:
        shell.run(transaction.commit(LATER))
    assert failure.value.condition == "amqp:transaction:rollback"


def test_a_broker_without_transactions_says_so() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    broker.refusals["coordinator"] = AmqpError("amqp:not-implemented", "Not here.", {})
    with pytest.raises(NotServed, match="Not here"):
        declared(shell)


def test_a_transaction_ends_with_its_connection() -> None:
    shell = MemoryShell(ScriptedBroker(), second := ScriptedBroker())
    transaction = declared(shell)
    shell.cut()
    sending = Sending(shell.connector, "orders")
    with pytest.raises(TransactionFailed):
        shell.run(transaction.part(sending.send([Message(b"a")], LATER, transaction)))
    with pytest.raises(TransactionFailed):
        shell.run(transaction.commit(LATER))
    shell.run(transaction.roll_back(LATER))
    assert not second.messages
    assert not second.transactions


def test_losing_the_connection_during_the_commit_leaves_it_unknown() -> None:
    shell = MemoryShell(broker := ScriptedBroker())
    transaction = declared(shell)
    shell.cut_when = lambda: len(broker.transactions) == 2
    with pytest.raises(ConnectionLost):
        shell.run(transaction.commit(LATER))


def test_a_message_of_a_lost_link_cannot_be_settled_in_a_transaction() -> None:
    shell = MemoryShell(broker := ScriptedBroker(), ScriptedBroker())
    receiving, message = received(shell, broker)
    shell.cut()
    transaction = declared(shell)
    with pytest.raises(MessageLockLost):
        shell.run(
            transaction.part(
                receiving.settle([message], dead_letter("why", None, None), LATER, transaction)
            )
        )
