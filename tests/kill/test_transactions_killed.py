"""The broker is killed among transactions, and every one has happened as a whole or not at all.

A few tokens go round between two queues. Every step is a transaction that completes a token and
sends its next generation, to the same queue or to the other: if one half of a step ever happened
alone, a token would be lost or doubled.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from bendybus.broker.clock import SystemClock
from bendybus.client import AsyncClient, Message
from bendybus.client.asynchronous import AsyncReceiver, AsyncSender
from bendybus.client.errors import ClientError
from bendybus.client.message import ReceivedMessage
from bendybus.testing.broker_process import BrokerProcess, broker_process
from tests.kill.stored_messages import opened

CONFIG: Final = Path(__file__).with_name("namespace.yaml")
QUEUES: Final = ("conventional", "partitioned")
TOKENS: Final = 60
WORKERS: Final = 3
COMMITS_PER_LIFE_MAX: Final = 60
LIFE_SECONDS_MAX: Final = 60
# Longer than a lock lasts, after which what the dead had locked comes back.
STALL_SECONDS_MAX: Final = 30
PAUSE_SECONDS: Final = 0.02


class Ledger:
    """How far each token has come, and something to be done at a certain commit."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.certain: dict[str, int] = {}
        self.commits = 0
        self.cut_off = 0
        self.is_over = False
        self._commits_left = 0
        self._action: Callable[[], None] | None = None

    def act_at(self, commits: int, action: Callable[[], None]) -> None:
        """Call `action` when the so-manieth commit from now is asked for."""
        self._commits_left, self._action = commits, action

    def ask(self, token: str, generation: int) -> None:
        self.asked[token] = max(generation, self.asked.get(token, 0))
        self._commits_left -= 1
        if self._commits_left <= 0 and self._action is not None:
            action, self._action = self._action, None
            action()

    def confirm(self, token: str, generation: int) -> None:
        self.certain[token] = generation
        self.commits += 1


class Worker:
    """Takes tokens from one queue, again and again, a step further."""

    def __init__(self, broker: BrokerProcess, queue: str, ledger: Ledger, seed: int) -> None:
        self._client = AsyncClient.from_connection_string(broker.connection_string(), timeout=5)
        self._receiver: AsyncReceiver = self._client.receiver(queue)
        self._senders: list[AsyncSender] = [self._client.sender(each) for each in QUEUES]
        self._ledger = ledger
        self._rng = random.Random(seed)

    async def run(self) -> None:
        async with self._client:
            while not self._ledger.is_over:
                try:
                    for message in await self._receiver.receive(1, PAUSE_SECONDS):
                        await self._step(message)
                except ClientError:
                    self._ledger.cut_off += 1
                    await asyncio.sleep(PAUSE_SECONDS)

    async def _step(self, message: ReceivedMessage) -> None:
        token, generation = read(message)
        following = Message(f"{token} {generation + 1}".encode(), partition_key=token)
        async with self._client.transaction() as transaction:
            await transaction.complete(self._receiver, message)
            await transaction.send(self._rng.choice(self._senders), following)
            self._ledger.ask(token, generation + 1)
        self._ledger.confirm(token, generation + 1)


def read(message: ReceivedMessage) -> tuple[str, int]:
    assert isinstance(message.body, bytes)
    token, generation = message.body.decode().split()
    return token, int(generation)


@pytest.mark.spec("R5.4")
@pytest.mark.spec("R5.6")
@pytest.mark.parametrize(
    ("kills", "stores"),
    [
        pytest.param(4, "files", marks=pytest.mark.timeout(240)),
        pytest.param(100, "files", marks=[pytest.mark.prove, pytest.mark.timeout(3000)]),
        pytest.param(5, "databases", marks=[pytest.mark.prove, pytest.mark.timeout(900)]),
    ],
    indirect=["stores"],
)
async def test_a_transaction_happens_as_a_whole_or_not_at_all_when_the_broker_is_killed(
    kills: int, stores: Sequence[str]
) -> None:
    seed = random.getrandbits(32)
    rng = random.Random(seed)
    ledger = Ledger()
    with broker_process(CONFIG, stores=stores) as broker:
        await hand_out_tokens(broker)
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                for queue in QUEUES:
                    worker = Worker(broker, queue, ledger, seed + number)
                    group.create_task(worker.run())
            for _ in range(kills):
                await kill_at_some_commit(broker, ledger, rng.randint(1, COMMITS_PER_LIFE_MAX))
                await asyncio.to_thread(broker.start)
            ledger.is_over = True
        found = await collected(broker)
        assert await asyncio.to_thread(broker.stop) == 0
        assert await left_in(broker) == 0, f"a token was doubled, with seed {seed}"

    assert sorted(token for token, _ in found) == sorted(map(name_of, range(TOKENS))), seed
    for token, generation in found:
        assert ledger.certain.get(token, 0) <= generation <= ledger.asked.get(token, 0), seed
    assert ledger.commits > kills, "hardly anything was committed"
    assert ledger.cut_off > 0, "no kill cut anything off"


def name_of(number: int) -> str:
    return f"token-{number}"


async def hand_out_tokens(broker: BrokerProcess) -> None:
    async with AsyncClient.from_connection_string(broker.connection_string()) as client:
        for at, queue in enumerate(QUEUES):
            names = [name_of(number) for number in range(at, TOKENS, 2)]
            messages = [Message(f"{name} 0".encode(), partition_key=name) for name in names]
            await client.sender(queue).send(messages)


async def kill_at_some_commit(broker: BrokerProcess, ledger: Ledger, commits: int) -> None:
    """Let the workers go on, and kill the broker while it makes the so-manieth commit."""
    killed: list[asyncio.Task[None]] = []
    begun = asyncio.Event()

    def kill() -> None:
        # Beside the loop, so that the discharge is on its way meanwhile.
        killed.append(asyncio.create_task(asyncio.to_thread(broker.kill)))
        begun.set()

    ledger.act_at(commits, kill)
    async with asyncio.timeout(LIFE_SECONDS_MAX):
        await begun.wait()
        await killed[0]


async def collected(broker: BrokerProcess) -> list[tuple[str, int]]:
    """Take every token out; those that the dead had locked come when their lock ends."""
    found: list[tuple[str, int]] = []
    async with (
        AsyncClient.from_connection_string(broker.connection_string()) as client,
        asyncio.timeout(STALL_SECONDS_MAX),
    ):
        receivers = [client.receiver(queue) for queue in QUEUES]
        while len(found) < TOKENS:
            for receiver in receivers:
                messages = await receiver.receive(TOKENS, PAUSE_SECONDS)
                await receiver.complete(messages)
                found += map(read, messages)
    return found


async def left_in(broker: BrokerProcess) -> int:
    """Count what the files of a stopped broker hold, in queues of any kind."""
    async with opened(broker, SystemClock()) as local:
        counts = [
            await source.store.counts(source.number)
            for queue in QUEUES
            for sub_queue in local.queue(queue).sub_queues.values()
            for source in sub_queue.sources
        ]
    return sum(each.messages for each in counts)
