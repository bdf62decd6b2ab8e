"""Two front ends on one machine over the embedded stores, beside one: two clients at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

from bench.features.stage import Side, Stage, in_turns
from bench.processes import busy_seconds, with_cpu_shares
from bench.readings import Figure, Reading
from bench.scenarios import Turn
from bench.subject_bendybus import KINDS, Bendybus, Entities

CLIENTS: Final = 2
PROGRAMS: Final = ("load", "light")
# Of each program and number of workers: the rate of sends and what one costs, the same of receives.
FIGURES: Final = {
    ("load", 1): (
        (Figure.ONE_WORKER_SEND, Figure.ONE_WORKER_SEND_CPU),
        (Figure.ONE_WORKER_RECEIVE, Figure.ONE_WORKER_RECEIVE_CPU),
    ),
    ("load", CLIENTS): (
        (Figure.TWO_WORKERS_SEND, Figure.TWO_WORKERS_SEND_CPU),
        (Figure.TWO_WORKERS_RECEIVE, Figure.TWO_WORKERS_RECEIVE_CPU),
    ),
    ("light", 1): (
        (Figure.ONE_WORKER_LIGHT_SEND, Figure.ONE_WORKER_LIGHT_SEND_CPU),
        (Figure.ONE_WORKER_LIGHT_RECEIVE, Figure.ONE_WORKER_LIGHT_RECEIVE_CPU),
    ),
    ("light", CLIENTS): (
        (Figure.TWO_WORKERS_LIGHT_SEND, Figure.TWO_WORKERS_LIGHT_SEND_CPU),
        (Figure.TWO_WORKERS_LIGHT_RECEIVE, Figure.TWO_WORKERS_LIGHT_RECEIVE_CPU),
    ),
}


def workers(stage: Stage) -> Iterator[Reading]:
    """Send by two clients, then receive by two, with one worker and with two in turns."""
    with _broker(stage, 1) as one, _broker(stage, CLIENTS) as two:
        for side in (one, two):
            side.warm_up()
        for program in PROGRAMS:
            yield from in_turns(
                stage.size.scale.repeats,
                partial(_readings, one, 1, program),
                partial(_readings, two, CLIENTS, program),
            )


@contextmanager
def _broker(stage: Stage, count: int) -> Iterator[Side]:
    folder = stage.folder / f"workers-{count}"
    entities = Entities({stage.kind: KINDS[stage.kind]})
    options = ("--workers", str(count))
    with Bendybus(entities, options).running(folder) as broker:
        yield Side(Turn(stage.clients, broker, stage.kind, stage.size), folder)


def _readings(side: Side, count: int, program: str, _: int) -> Iterator[Reading]:
    # As many as a client alone sends elsewhere, some seconds' worth: rounds of a second differ by
    # more than what is to be told apart.
    to_send = side.size.messages
    # Who is done first leaves with up to as many locked as it had in flight; enough must be left.
    to_receive = to_send - max(to_send // 10, side.size.in_flight)
    calls = ((side.send, to_send), (side.receive, to_receive))
    for (of_rate, of_cost), (call, each) in zip(FIGURES[program, count], calls, strict=True):
        before = busy_seconds()
        at_once = partial(_at_once, partial(call, each, program=program))
        rate, cpu = with_cpu_shares(side.broker.pid, at_once)
        spent = busy_seconds() - before
        yield side.reading(of_rate, rate, cpu=cpu)
        # The machine's cores over this are the most that it can do, however well they are used.
        yield side.reading(of_cost, spent / (each * CLIENTS) * 1e6)
    side.clients.drain(side.broker, side.queue)


def _at_once(call: Callable[[], float]) -> float:
    """Messages per second of all clients together."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(lambda _: call(), range(CLIENTS)))
