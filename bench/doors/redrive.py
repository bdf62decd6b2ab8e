"""Dead letters that are tried again: moved back to their queue by the command line's own client."""

import time
from collections.abc import Iterator
from typing import Final

from bench.features.stage import Side, Stage
from bench.processes import BenchmarkError, with_cpu_shares
from bench.readings import Figure, Reading
from bendybus.client import Client, SubQueue
from bendybus.model.connection_string import ConnectionString

TOGETHER: Final = 500
WAIT_SECONDS: Final = 10.0


def redrive(stage: Stage) -> Iterator[Reading]:
    """Send, dead-letter all, and measure how fast they are back; the queue is emptied between."""
    count = stage.size.doors.dead_letters
    with stage.queue("redrive") as side:
        for _ in range(stage.size.doors.redrives):
            with _client(side) as client:
                side.send(count)
                _dead_letter(client, side.queue, count)
                rate, cpu = with_cpu_shares(
                    side.broker.pid, lambda: _rate(client, side.queue, count)
                )
                yield side.reading(Figure.REDRIVE, rate, cpu=cpu)
                client.receiver(side.queue).purge()


def _client(side: Side) -> Client:
    broker = side.broker
    text = ConnectionString(
        host="127.0.0.1",
        port=broker.port,
        rule_name=broker.user,
        key=broker.password,
        use_development_emulator=True,
    ).to_text()
    return Client.from_connection_string(text)


def _dead_letter(client: Client, queue: str, count: int) -> None:
    left = count
    with client.receiver(queue, prefetch=TOGETHER) as receiver:
        while left:
            some = receiver.receive(TOGETHER, WAIT_SECONDS)
            if not some:
                raise BenchmarkError(f"{left} messages to be dead-lettered do not come")
            receiver.dead_letter(some, "Rejected")
            left -= len(some)


def _rate(client: Client, queue: str, count: int) -> float:
    begun = time.perf_counter()
    done = client.redrive(queue).done
    seconds = time.perf_counter() - begun
    if done != count or client.count(queue, sub_queue=SubQueue.DEAD_LETTER):
        raise BenchmarkError(f"{done} of {count} dead letters were redriven")
    return count / seconds
