"""Kills of all that takes part in a pipeline, at random moments."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tests.spark.conftest import Bus
from tests.spark.driver import Driver, driver

STORES: Final = 16
# About as long as a batch takes, so that every part of one is cut off at some time.
MOMENT_SECONDS_MAX: Final = 2.0


def kill_through(
    bus: Bus,
    command: Sequence[str],
    progress: Callable[[], int],
    kills: int,
    rng: random.Random,
) -> None:
    """Run a command to its end, through kills of Spark, of the broker, of workers and stores."""
    for _ in range(kills):
        with driver(bus, *command) as running:
            wait_for_more(running, progress, rng.randint(1, 3))
            running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))
    with driver(bus, *command) as running:
        for _ in range(kills):
            wait_for_more(running, progress, 1)
            running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))
            bus.broker.kill()
            bus.broker.start()
            running.wait_for(running.kill_worker)
            with store_away(bus, rng.randrange(STORES)):
                running.live_on(rng.uniform(0, MOMENT_SECONDS_MAX))
        running.result()


def wait_for_more(running: Driver, progress: Callable[[], int], more: int) -> None:
    """Wait until so much more is done than now."""
    enough = progress() + more
    running.wait_for(lambda: progress() >= enough)


@contextmanager
def store_away(bus: Bus, store: int) -> Iterator[None]:
    """Take a store away while the block runs."""
    bus.administration.ask_json("POST", f"/$stores/{store}/offline")
    try:
        yield
    finally:
        bus.administration.ask_json("POST", f"/$stores/{store}/online")
