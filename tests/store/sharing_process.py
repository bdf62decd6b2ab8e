"""A process that sends and completes through a shared SQLite file, and says what it was told.

    python -m tests.store.sharing_process FILE NAME

Writes a line for every answer: what was sent, and what was completed, by number and content.
"""

import asyncio
import random
import sys
import time
from pathlib import Path

from bendybus.model.ids import Instant
from bendybus.model.message import Message
from bendybus.model.operations import Append, Remove
from bendybus.store.port import Acquire
from bendybus.store.sqlite.shared_store import SharedSqliteStore
from bendybus.testing.store_contract.subject import MAIN, ORDERS, ROOMY, number_of

LOCK_MS = 2000


def now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def keep_sending(store: SharedSqliteStore, name: str) -> None:
    for at in range(1 << 30):
        content = f"{name}-{at}"
        message = Message(content.encode())
        answers = await store.apply([Append(MAIN, [message], ROOMY)], now=now())
        say(f"sent {number_of(answers)} {content}")


async def keep_completing(store: SharedSqliteStore) -> None:
    while True:
        moment = now()
        wish = Acquire(MAIN, 2, ROOMY, Instant(moment + LOCK_MS), random.getrandbits(62))
        for held in await store.acquire(wish, now=moment):
            [lost] = await store.apply([Remove(MAIN, [held.lock])], now=now())
            if not lost:
                say(f"completed {held.sequence} {held.content.decode()}")


async def main(path: Path, name: str) -> None:
    store = SharedSqliteStore(0, path)
    await store.start()
    if not await store.entities():
        await store.put_entities([ORDERS])
    senders = [keep_sending(store, f"{name}-{each}") for each in range(3)]
    await asyncio.gather(*senders, keep_completing(store))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
