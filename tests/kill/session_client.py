"""Clients that send to sessions and receive from them, and log all that they see."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bendybus.client import AsyncClient, Message, ReceivedMessage
from bendybus.client.asynchronous import AsyncSessionReceiver
from bendybus.client.errors import ClientError
from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.history_checker import (
    Acknowledged,
    Completed,
    CompletionAsked,
    Received,
    Sent,
)
from bendybus.testing.session_checker import (
    Accepted,
    Ended,
    SessionEntry,
    StateAsked,
    StateKept,
    StateSeen,
)

TIMEOUT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.02
ACCEPT_SECONDS: Final = 0.5
RECEIVE_SECONDS: Final = 0.05
TOGETHER_MAX: Final = 12
ROUNDS_MAX: Final = 4
BACKLOG_MAX: Final = 300

Write = Callable[[SessionEntry], None]


class SessionSender:
    """Sends to sessions of its own, one message after the other, and none of them twice."""

    def __init__(self, broker: BrokerProcess, queue: str, write: Write, rng: random.Random) -> None:
        self._client = AsyncClient.from_connection_string(
            broker.connection_string(), timeout=TIMEOUT_SECONDS
        )
        self._queue = queue
        self._write = write
        self._rng = rng
        self._sent = 0

    async def run(self, sessions: list[str], backlog: Callable[[], int | None]) -> None:
        """Send until there is no backlog to be kept up any more."""
        async with self._client:
            sender = self._client.sender(self._queue)
            while (waiting := backlog()) is not None:
                if waiting > BACKLOG_MAX:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                session = self._rng.choice(sessions)
                names = [self._name(session) for _ in range(self._rng.randint(1, TOGETHER_MAX))]
                for name in names:
                    self._write(Sent(name, session))
                try:
                    await sender.send(
                        [Message(f"<{name}>".encode(), session_id=session) for name in names]
                    )
                except ClientError:
                    # Nobody knows which of them are there; none is sent again.
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    for name in names:
                        self._write(Acknowledged(name))

    def _name(self, session: str) -> str:
        self._sent += 1
        return f"{session}-{self._sent}"


class SessionWorker:
    """Accepts whichever session is next, works on it for a while, and gives it back."""

    def __init__(self, broker: BrokerProcess, queue: str, write: Write, rng: random.Random) -> None:
        self._client = AsyncClient.from_connection_string(
            broker.connection_string(), timeout=TIMEOUT_SECONDS
        )
        self._queue = queue
        self._write = write
        self._rng = rng
        self._holdings = 0
        self.is_over = False

    async def run(self, name: str) -> None:
        """Work until it is over."""
        async with self._client:
            while not self.is_over:
                try:
                    receiver = await self._client.accept_session(
                        self._queue, timeout=ACCEPT_SECONDS
                    )
                except ClientError:
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                self._holdings += 1
                holder = f"{name}-{self._holdings}"
                self._write(Accepted(receiver.session_id, holder))
                try:
                    await self._work(receiver, holder)
                except ClientError:
                    await asyncio.sleep(0)
                finally:
                    self._write(Ended(receiver.session_id, holder))
                    with suppress(ClientError):
                        await receiver.close()

    async def _work(self, receiver: AsyncSessionReceiver, holder: str) -> None:
        session = receiver.session_id
        self._write(StateSeen(session, await receiver.state()))
        for _ in range(self._rng.randint(1, ROUNDS_MAX)):
            messages = await receiver.receive(self._rng.randint(1, TOGETHER_MAX), RECEIVE_SECONDS)
            for message in messages:
                assert isinstance(message.body, bytes)
                name = message.body.decode().strip("<>")
                self._write(Received(name, number(message), message.delivery_count, holder))
            # The first ones are done; of the others one is given up, and the rest stays locked
            # until the session is given back.
            done = messages[: self._rng.randint(0, len(messages))]
            for message in done:
                self._write(CompletionAsked(number(message)))
            await receiver.complete(done)
            for message in done:
                self._write(Completed(number(message)))
            if len(done) < len(messages):
                await receiver.abandon(messages[len(done)])
                break
        state = holder.encode()
        self._write(StateAsked(session, state))
        await receiver.set_state(state)
        self._write(StateKept(session, state))


def number(message: ReceivedMessage) -> int:
    """Return a message's sequence number."""
    assert message.sequence_number is not None
    return message.sequence_number
