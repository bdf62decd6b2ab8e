"""Two front ends on one machine over the embedded stores, beside one: two clients at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from bench.features.stage import Side, Stage, in_turns
from bench.processes import with_cpu_shares
from bench.readings import Figure, Reading
from bench.scenarios import Turn
from bench.subject_bendybus import KINDS, Bendybus, Entities

CLIENTS = 2


def workers(stage: Stage) -> Iterator[Reading]:
    """Send by two clients, then receive by two, with one worker and with two in turns."""
    with _broker(stage, 1) as one, _broker(stage, CLIENTS) as two:
        for side in (one, two):
            side.warm_up()
        yield from in_turns(
            stage.size.scale.repeats,
            lambda _: _readings(one, (Figure.ONE_WORKER_SEND, Figure.ONE_WORKER_RECEIVE)),
            lambda _: _readings(two, (Figure.TWO_WORKERS_SEND, Figure.TWO_WORKERS_RECEIVE)),
        )


@contextmanager
def _broker(stage: Stage, count: int) -> Iterator[Side]:
    folder = stage.folder / f"workers-{count}"
    entities = Entities({stage.kind: KINDS[stage.kind]})
    options = ("--workers", str(count))
    with Bendybus(entities, options).running(folder) as broker:
        yield Side(Turn(stage.clients, broker, stage.kind, stage.size), folder)


def _readings(side: Side, figures: tuple[Figure, Figure]) -> Iterator[Reading]:
    # Both clients share what there is; a client that is done early would leave the other alone.
    each = side.size.scale.messages // CLIENTS
    calls = (lambda: side.send(each), lambda: side.receive(each * 9 // 10))
    for figure, call in zip(figures, calls, strict=True):
        rate, cpu = with_cpu_shares(side.broker.pid, partial(_at_once, call))
        yield side.reading(figure, rate, cpu=cpu)
    side.clients.drain(side.broker, side.queue)


def _at_once(call: Callable[[], float]) -> float:
    """Messages per second of all clients together."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        return sum(pool.map(lambda _: call(), range(CLIENTS)))
