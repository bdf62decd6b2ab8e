"""Very much becoming due at once, and what other traffic on the broker feels of it."""

import os
import time
from collections.abc import Iterator
from typing import Final

from bench.features.load import Marks, locks_held, send_marked
from bench.features.stage import Side, Stage, in_turns
from bench.processes import BenchmarkError, wait_until
from bench.readings import Figure, Reading
from bench.scenarios import SMALL_BODY_BYTES, Turn

SCHEDULED: Final = "scheduled"
LOCKED: Final = "locked"
# Locks are taken one after the other, so they end within as much time as that took.
LOCK_SECONDS: Final = 15
# More than are to be locked: what is read ahead for one receiver, another would wait for.
SPARE: Final = 1000
# Other traffic begins that long before, past what latency.cpp leaves out as its warming up.
LEAD_SECONDS: Final = 1.0


def due_at_once(stage: Stage) -> Iterator[Reading]:
    """The waits of a paced sender: with nothing due, with schedules due, with locks ending."""
    locks = {"LockDuration": f"PT{LOCK_SECONDS}S"}
    with stage.queues("due", {SCHEDULED: {}, LOCKED: locks}) as side:
        side.warm_up()
        # Files that grow for the first time take longer to sync: that belongs to nobody's figure.
        for _ in traffic(side, Figure.BESIDE_NOTHING_P99):
            pass
        yield from in_turns(
            stage.amounts.due_repeats,
            lambda _: beside_nothing(side),
            lambda number: beside_schedules(side, number),
            lambda _: beside_locks(side),
        )


def traffic(side: Side, figure: Figure) -> Iterator[Reading]:
    """A paced sender on a queue of its own, which is emptied afterwards."""
    amounts = side.size.features
    waits = side.clients.waits(
        side.broker,
        side.queue,
        per_second=amounts.beside_per_second,
        seconds=amounts.beside_seconds,
        body_bytes=SMALL_BODY_BYTES,
    )
    yield side.reading(figure, waits.p99_ms)
    side.clients.drain(side.broker, side.queue)


def beside_nothing(side: Side) -> Iterator[Reading]:
    """The same traffic by itself."""
    os.sync()
    yield from traffic(side, Figure.BESIDE_NOTHING_P99)


def beside_schedules(side: Side, number: int) -> Iterator[Reading]:
    """Schedule for one moment, and be there when it comes."""
    amounts = side.size.features
    scheduled = Turn(side.clients, side.broker, SCHEDULED, side.size)
    due = time.time() + amounts.prepare_seconds
    marks = Marks(f"{number}-", due_ms=int(due * 1000))
    send_marked(scheduled, amounts.due_at_once, marks, body_bytes=SMALL_BODY_BYTES)
    os.sync()
    wait_until_before(due)
    yield from traffic(side, Figure.BESIDE_SCHEDULES_P99)
    scheduled.receive(amounts.due_at_once)  # all of them: it would wait in vain for a missing one


def beside_locks(side: Side) -> Iterator[Reading]:
    """Lock, and be there when the locks end."""
    count = side.size.features.due_at_once
    locked = Turn(side.clients, side.broker, LOCKED, side.size)
    locked.send(count + SPARE)
    ending = time.time() + LOCK_SECONDS
    with locks_held(side, LOCKED, count):
        os.sync()
        wait_until_before(ending)
        yield from traffic(side, Figure.BESIDE_LOCKS_P99)
    locked.receive(count + SPARE)


def wait_until_before(moment: float) -> None:
    """Until just before a moment that must not be over."""
    begin = moment - LEAD_SECONDS
    if time.time() > begin:
        raise BenchmarkError("preparing took so long that it is due before the traffic began")
    wait_until(
        lambda: time.time() >= begin, seconds_max=moment - time.time() + 1, what="the moment"
    )
