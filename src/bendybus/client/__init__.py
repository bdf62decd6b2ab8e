"""The native client: send, receive, settle, sessions and transactions, blocking or asynchronous.

Begin with `Client.from_connection_string` or `AsyncClient.from_connection_string`.
"""

from bendybus.client.asynchronous import (
    AsyncClient,
    AsyncReceiver,
    AsyncSender,
    AsyncSessionReceiver,
    AsyncTransaction,
)
from bendybus.client.blocking import Client, Receiver, Sender, SessionReceiver, Transaction
from bendybus.client.going_through import Progress
from bendybus.client.message import Message, MessageId, MessageState, ReceivedMessage
from bendybus.client.purging import Purge
from bendybus.client.receive_mode import ReceiveMode
from bendybus.client.redriving import Edit, Redrive
from bendybus.model.ids import SubQueue

__all__ = [
    "AsyncClient",
    "AsyncReceiver",
    "AsyncSender",
    "AsyncSessionReceiver",
    "AsyncTransaction",
    "Client",
    "Edit",
    "Message",
    "MessageId",
    "MessageState",
    "Progress",
    "Purge",
    "ReceiveMode",
    "ReceivedMessage",
    "Receiver",
    "Redrive",
    "Sender",
    "SessionReceiver",
    "SubQueue",
    "Transaction",
]
