"""`bench/vacuum`: how large a queue's tables get while very many messages pass through it."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

import psycopg

from bench.scale.stores import MAIN, ROOMY, opened, receive, send
from bendybus.model.message import Message
from bendybus.model.operations import Append
from bendybus.store.postgres.store import PostgresStore
from bendybus.testing.postgres import postgres_server

TOGETHER: Final = 500
BODY_BYTES: Final = 200
TIMES_LIVE_MAX: Final = 3.0
REPORTS: Final = 20

_SIZES: Final = """
    SELECT pg_total_relation_size('bendybus.message'), pg_total_relation_size('bendybus.body')"""


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: the tables stayed within the limit; 1: they did not."""
    parser = argparse.ArgumentParser(prog="bench/vacuum", description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000, help="that pass through")
    parser.add_argument("--backlog", type=int, default=100_000, help="messages in the queue")
    options = parser.parse_args(arguments)
    with postgres_server() as server, server.lent_database() as url:
        largest = asyncio.run(_measure(url, options.messages, options.backlog))
    print(f"at most {largest:.2f} times the size of the backlog alone (limit {TIMES_LIVE_MAX:g})")
    return 0 if largest <= TIMES_LIVE_MAX else 1


async def _measure(url: str, messages: int, backlog: int) -> float:
    """Return how many times the size of the live messages the tables had at most."""
    async with opened(url) as store:
        with psycopg.connect(url, autocommit=True) as connection:
            await _send(store, backlog)
            live = connection.execute(_SIZES).fetchone() or ()
            print(f"{backlog:,} messages of {BODY_BYTES} B: {_megabytes(live)}")
            print(f"{'passed':>12}{'per second':>12}{'message':>10}{'body':>10}  (times live)")
            largest, begun = 0.0, time.perf_counter()
            for number in range(1, REPORTS + 1):
                await _pass_through(store, messages // REPORTS)
                sizes = connection.execute(_SIZES).fetchone() or ()
                ratios = [size / before for size, before in zip(sizes, live, strict=True)]
                largest = max(largest, *ratios)
                passed = messages // REPORTS * number
                rate = passed / (time.perf_counter() - begun)
                print(
                    f"{passed:>12,}{rate:>12,.0f}{ratios[0]:>10.2f}{ratios[1]:>10.2f}", flush=True
                )
            return largest


async def _send(store: PostgresStore, messages: int) -> None:
    batch = Append(MAIN, [Message(os.urandom(BODY_BYTES))] * TOGETHER, ROOMY)
    for _ in range(messages // TOGETHER):
        await send(store, batch)


async def _pass_through(store: PostgresStore, messages: int) -> None:
    """Send and receive at once, neither further than the other, so that the backlog stays."""
    nonces = count(time.monotonic_ns())
    for _ in range(messages // TOGETHER):
        await asyncio.gather(_send(store, TOGETHER), receive(store, TOGETHER, next(nonces)))


def _megabytes(sizes: Sequence[int]) -> str:
    return ", ".join(
        f"{name} {size / 1e6:.1f} MB" for name, size in zip(("message", "body"), sizes, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
