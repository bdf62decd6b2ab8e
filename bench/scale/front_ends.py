"""Three front ends that receive from two stores at once: how often one finds nothing in vain.

Each front end is a process. It looks at one store after the other, takes what it finds and
completes it, until both are empty. A look that finds nothing counts if the store had free messages
right afterwards.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack

from bench.features.stage import Stage
from bench.processes import BenchmarkError
from bench.readings import Figure, Reading, Subject
from bench.scale.stores import MAIN, ROOMY, opened, receive, send
from bench.scenarios import SMALL_BODY_BYTES
from bench.subject_bendybus import SOURCE
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.store.postgres.store import PostgresStore
from bendybus.testing.postgres import postgres_server

FRONT_ENDS = 3
STORES = 2
TOGETHER = 50
SECONDS_MAX = 300


def front_ends(stage: Stage) -> Iterator[Reading]:
    """Fill the stores, and let all front ends receive at once."""
    amounts = stage.size.scale
    for _ in range(amounts.repeats):
        with postgres_server() as server:
            urls = [server.url(server.make_database()) for _ in range(STORES)]
            asyncio.run(_fill(urls, amounts.messages // STORES))
            counts = _run_all(urls)
        received = sum(count["received"] for count in counts)
        if received != amounts.messages // STORES // TOGETHER * TOGETHER * STORES:
            raise BenchmarkError(f"{received} messages were received of {amounts.messages}")
        calls, vain = (sum(count[name] for count in counts) for name in ("calls", "vain"))
        target = "bendybus postgresql"
        yield Reading(Subject(Figure.VAIN_ACQUIRES, target, SMALL_BODY_BYTES), 100 * vain / calls)
        # From when the first began to when the last was done: not how long they take to start.
        begun, ended = (
            min(each["begun"] for each in counts),
            max(each["ended"] for each in counts),
        )
        rate = received / (ended - begun)
        yield Reading(Subject(Figure.FRONT_ENDS_RECEIVE, target, SMALL_BODY_BYTES), rate)


async def _fill(urls: list[str], messages: int) -> None:
    batch = Append(MAIN, [Message(os.urandom(SMALL_BODY_BYTES))] * TOGETHER, ROOMY)
    for url in urls:
        async with opened(url) as store:
            for _ in range(messages // TOGETHER):
                await send(store, batch)


def _run_all(urls: list[str]) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "bench.scale.front_ends", *urls]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=SOURCE.parent)
        for _ in range(FRONT_ENDS)
    ]
    try:
        return [json.loads(each.communicate(timeout=SECONDS_MAX)[0]) for each in running]
    except (ValueError, subprocess.TimeoutExpired) as error:
        raise BenchmarkError(f"a front end failed: {error}") from error
    finally:
        for each in running:
            each.kill()
            each.wait()


async def _receive_all(urls: list[str]) -> dict[str, float]:
    """Be one of the front ends."""
    counts = {"calls": 0.0, "vain": 0.0, "received": 0.0}
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(url, is_first=False)) for url in urls]
        nonce = int.from_bytes(os.urandom(6))
        counts["begun"] = time.monotonic()
        while stores:
            for store in list(stores):
                nonce += 1
                counts["calls"] += 1
                found = await receive(store, TOGETHER, nonce)
                counts["received"] += found
                if not found:
                    if await _has_free(store):
                        counts["vain"] += 1
                    else:
                        stores.remove(store)
        counts["ended"] = time.monotonic()
    return counts


async def _has_free(store: PostgresStore) -> bool:
    held = (await store.locked()).get(MAIN, 0)
    return (await store.counts(MAIN)).messages > held


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_receive_all(sys.argv[1:]))))
