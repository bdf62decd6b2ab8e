"""The time of a database server, for all front ends that share its stores (D8).

Locks, schedules and lives are instants in the stores, and every front end must mean the same by
them, whatever its machine's clock says. So a front end asks a server what time it is, and counts on
from there by its machine's ticking, which no one sets. Now and then it asks again. Servers' clocks
differ, and jump: it follows them in small steps, forwards only.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from bendybus.broker.clock import Clock, SystemClock
from bendybus.model.errors import BusError, StartRefused
from bendybus.model.ids import Instant
from bendybus.store.port import Store

ANCHOR_SECONDS: Final = 10.0
# How far one reading moves the clock at most, after the first.
STEP_MS_MAX: Final = 500
# A reading that took longer says too little.
READING_MS_MAX: Final = 2_000

# Elsewhere than on Linux, a machine that slept is behind until it has asked again.
_TICKING: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_log = logging.getLogger(__name__)


def ticks_ms() -> int:
    """Return the milliseconds since the machine was started, also those that it slept."""
    return time.clock_gettime_ns(_TICKING) // 1_000_000


class AnchoredClock:
    """Counts on from the last time that a server said, never going backwards."""

    def __init__(self, anchor: Instant, ticks: Callable[[], int] = ticks_ms) -> None:
        self._ticks = ticks
        self._offset = anchor - ticks()
        self._latest = anchor

    def now(self) -> Instant:
        """Return the present instant."""
        self._latest = max(self._latest, Instant(self._ticks() + self._offset))
        return self._latest

    def correct(self, read: Instant, *, asked_at: int, answered_at: int) -> None:
        """Take a reading into account, of some moment between two ticks; no more than is sure."""
        if answered_at - asked_at > READING_MS_MAX:
            return
        earliest, latest = read - answered_at, read - asked_at
        sure = min(max(self._offset, earliest), latest)
        step = max(-STEP_MS_MAX, min(sure - self._offset, STEP_MS_MAX))
        if abs(sure - self._offset) > STEP_MS_MAX:
            _log.warning(
                "the clock of a messaging store's server is %d ms off the time used so far;"
                " following it by %d ms",
                sure - self._offset,
                step,
            )
        self._offset += step

    async def keep_anchored(self, stores: Sequence[Store]) -> None:
        """Ask again now and then, until cancelled."""
        while True:
            await asyncio.sleep(ANCHOR_SECONDS)
            asked_at = self._ticks()
            read = await _server_time(stores)
            if read is not None:
                self.correct(read, asked_at=asked_at, answered_at=self._ticks())


async def clock_of(stores: Sequence[Store]) -> Clock:
    """Return the clock by which the stores' instants are meant. Raises `StartRefused`."""
    refused: BusError | None = None
    for store in stores:
        if store.is_online:
            try:
                read = await store.server_time()
            except BusError as error:
                refused = error
                continue
            if read is not None:
                return AnchoredClock(read)
    if refused is not None:
        raise StartRefused(f"no messaging store's server says what time it is: {refused}")
    return SystemClock()


async def _server_time(stores: Sequence[Store]) -> Instant | None:
    """Return the time of the first server that is there and answers."""
    for store in stores:
        if store.is_online:
            with suppress(BusError):
                read = await store.server_time()
                if read is not None:
                    return read
    return None
