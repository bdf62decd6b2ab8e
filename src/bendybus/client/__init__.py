"""The native client: send, receive, settle, sessions and transactions, blocking or asynchronous.

Begin with `Client.from_connection_string` or `AsyncClient.from_connection_string`.

Each is imported when it is first asked for: whoever manages entities needs nothing of AMQP, and
imports are most of what a short command takes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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
    from bendybus.client.redriving import Redrive
    from bendybus.model.ids import SubQueue

__all__ = [
    "AsyncClient",
    "AsyncReceiver",
    "AsyncSender",
    "AsyncSessionReceiver",
    "AsyncTransaction",
    "Client",
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

_PLACES: Final = {
    "AsyncClient": "bendybus.client.asynchronous",
    "AsyncReceiver": "bendybus.client.asynchronous",
    "AsyncSender": "bendybus.client.asynchronous",
    "AsyncSessionReceiver": "bendybus.client.asynchronous",
    "AsyncTransaction": "bendybus.client.asynchronous",
    "Client": "bendybus.client.blocking",
    "Message": "bendybus.client.message",
    "MessageId": "bendybus.client.message",
    "MessageState": "bendybus.client.message",
    "Progress": "bendybus.client.going_through",
    "Purge": "bendybus.client.purging",
    "ReceiveMode": "bendybus.client.receive_mode",
    "ReceivedMessage": "bendybus.client.message",
    "Receiver": "bendybus.client.blocking",
    "Redrive": "bendybus.client.redriving",
    "Sender": "bendybus.client.blocking",
    "SessionReceiver": "bendybus.client.blocking",
    "SubQueue": "bendybus.model.ids",
    "Transaction": "bendybus.client.blocking",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name has
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(place), name)
