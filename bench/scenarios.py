"""What is done to a running broker, and what is read off it. Each function is one queue's turn."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.brokers import RunningBroker, System
from bench.clients import Clients
from bench.processes import (
    BenchmarkError,
    CpuShares,
    resident_bytes,
    with_cpu_shares,
)
from bench.readings import Figure, Reading, Subject
from bench.size import Size

MEGABYTE: Final = 1_000_000
KILOBYTE: Final = 1_000
# The body size for everything that is not measured at every size.
SMALL_BODY_BYTES: Final = 200
# The body size of figures that have to do with no message.
NO_BODY: Final = 0
# Opens files and fills caches, so that the first figure of a fresh broker is not about that.
WARM_UP_MESSAGES: Final = 5_000
FIRST_DELIVERY_WAIT_MS: Final = 120_000


class Turn:
    """One queue of one running broker, under one size of run."""

    def __init__(self, clients: Clients, broker: RunningBroker, queue: str, size: Size) -> None:
        self.clients = clients
        self.broker = broker
        self.queue = queue
        self.size = size

    def reading(
        self,
        figure: Figure,
        value: float,
        *,
        body_bytes: int = SMALL_BODY_BYTES,
        cpu: CpuShares | None = None,
    ) -> Reading:
        """A reading of this queue."""
        subject = Subject(figure, self.broker.target(self.queue), body_bytes)
        return Reading(subject, value, cpu)

    def warm_up(self) -> None:
        """Pass some messages through and leave the queue empty."""
        self.send(WARM_UP_MESSAGES)
        self.clients.drain(self.broker, self.queue)

    def send(
        self, count: int, body_bytes: int = SMALL_BODY_BYTES, *, program: str = "load"
    ) -> float:
        """Messages per second of one sender."""
        return self.clients.send(
            self.broker,
            self.queue,
            count,
            body_bytes=body_bytes,
            in_flight=self.size.in_flight,
            program=program,
        )

    def receive(self, count: int, *, program: str = "load") -> float:
        """Messages per second of one receiver."""
        return self.clients.receive(
            self.broker, self.queue, count, in_flight=self.size.in_flight, program=program
        )


def throughput(turn: Turn, body_bytes: int) -> Iterator[Reading]:
    """One sender, then one receiver, then both at once; the queue is empty before and after."""
    size, clients, broker = turn.size, turn.clients, turn.broker
    rate, cpu = with_cpu_shares(broker.pid, lambda: turn.send(size.messages, body_bytes))
    yield turn.reading(Figure.SEND, rate, body_bytes=body_bytes, cpu=cpu)

    rate, cpu = with_cpu_shares(broker.pid, lambda: turn.receive(size.messages))
    yield turn.reading(Figure.RECEIVE, rate, body_bytes=body_bytes, cpu=cpu)
    left = clients.drain(broker, turn.queue)
    yield turn.reading(Figure.BACK_AFTER_RECEIVE, left, body_bytes=body_bytes)

    (sent, received), cpu = with_cpu_shares(
        broker.pid,
        lambda: clients.send_and_receive(
            broker, turn.queue, size.messages, body_bytes=body_bytes, in_flight=size.in_flight
        ),
    )
    yield turn.reading(Figure.SEND_AT_ONCE, sent, body_bytes=body_bytes, cpu=cpu)
    yield turn.reading(Figure.RECEIVE_AT_ONCE, received, body_bytes=body_bytes, cpu=cpu)
    clients.drain(broker, turn.queue)


def latency(turn: Turn, per_second: float) -> Iterator[Reading]:
    """Time to acknowledgement at a fixed rate."""
    waits, cpu = with_cpu_shares(
        turn.broker.pid,
        lambda: turn.clients.waits(
            turn.broker,
            turn.queue,
            per_second=per_second,
            seconds=turn.size.latency_seconds,
            body_bytes=SMALL_BODY_BYTES,
        ),
    )
    yield turn.reading(Figure.ACKNOWLEDGE_P50, waits.p50_ms, cpu=cpu)
    yield turn.reading(Figure.ACKNOWLEDGE_P99, waits.p99_ms, cpu=cpu)
    yield turn.reading(Figure.PACED_RATE, waits.per_second)
    turn.clients.drain(turn.broker, turn.queue)


def idle(turn: Turn) -> Iterator[Reading]:
    """Memory of connections that are open and do nothing."""
    count = turn.size.connections
    # The first connections load code and fill pools; that is not the price of one more connection.
    with turn.clients.idle_connections(turn.broker, turn.queue, 10):
        pass
    before = resident_bytes(turn.broker.pid)
    with turn.clients.idle_connections(turn.broker, turn.queue, count):
        grown = resident_bytes(turn.broker.pid) - before
    yield turn.reading(Figure.CONNECTION_RESIDENT, grown / count / KILOBYTE, body_bytes=NO_BODY)


def backlog(
    clients: Clients, system: System, queue: str, size: Size, folder: Path
) -> Iterator[Reading]:
    """Rates on an empty queue and on a long one, memory, and restarts with the long one.

    Two brokers, one of each, take turns: what the machine does meanwhile hits both.
    """
    with system.running(folder / "long") as broker, system.running(folder / "empty") as other:
        long = Turn(clients, broker, queue, size)
        empty = Turn(clients, other, queue, size)
        yield long.reading(Figure.RESIDENT_EMPTY, resident_bytes(broker.pid) / MEGABYTE)
        for turn in (long, empty):
            turn.warm_up()
        long.send(size.backlog - size.backlog_slice)
        for number in range(size.backlog_repeats):
            turns = (_slice_of_long(long), _slice_of_empty(empty))
            for readings in turns if number % 2 == 0 else reversed(turns):
                yield from readings
    yield from restart(clients, system, queue, size, folder / "long")


def _slice_of_long(turn: Turn) -> Iterator[Reading]:
    """Send onto the backlog and receive as much from its front."""
    yield turn.reading(Figure.BACKLOG_SEND, turn.send(turn.size.backlog_slice))
    resident = resident_bytes(turn.broker.pid)
    yield turn.reading(Figure.RESIDENT_BACKLOG, resident / MEGABYTE)
    yield turn.reading(Figure.BACKLOG_RECEIVE, turn.receive(turn.size.backlog_slice))


def _slice_of_empty(turn: Turn) -> Iterator[Reading]:
    """Send to the empty queue and receive everything."""
    yield turn.reading(Figure.EMPTY_SEND, turn.send(turn.size.backlog_slice))
    yield turn.reading(Figure.EMPTY_RECEIVE, turn.receive(turn.size.backlog_slice))
    turn.clients.drain(turn.broker, turn.queue)


def restart(
    clients: Clients, system: System, queue: str, size: Size, folder: Path
) -> Iterator[Reading]:
    """Start on a folder with a backlog: once after an orderly stop, once after a kill."""
    for figure in (Figure.RESTART_STOPPED, Figure.RESTART_KILLED):
        begun = time.monotonic()
        with system.running(folder) as broker:
            turn = Turn(clients, broker, queue, size)
            if not clients.has_message(broker, queue, wait_ms=FIRST_DELIVERY_WAIT_MS):
                raise BenchmarkError(f"{broker.target(queue)} lost its backlog in a restart")
            yield turn.reading(figure, time.monotonic() - begun)
            resident = resident_bytes(broker.pid)
            yield turn.reading(Figure.RESIDENT_RESTARTED, resident / MEGABYTE)
            # The next start, or nobody, finds what a crash leaves.
            os.kill(broker.pid, signal.SIGKILL)
