"""Which processor a worker keeps to, where there is one for each.

The threads of a worker hand the interpreter to each other all the time. On one processor that costs
next to nothing; across two each handing over wakes the other one, and what is handed over is in the
wrong cache (decisions/0031). Nor does a worker that is woken take its processor from a client that
runs there: more has come when it has its turn, and is done at once (decisions/0033).
"""

import os
from collections.abc import Collection

from bendybus.store.sql.lane import give_way


def processor_of(worker: int, workers: int, usable: Collection[int]) -> int | None:
    """Return the processor of a worker; None where there are more of them than workers.

    There each of its threads finds one that is free.
    """
    if workers < len(usable):
        return None
    return sorted(usable)[worker % len(usable)]


def keep_to_processor(worker: int, workers: int) -> None:
    """Let the process, with all the threads that it starts, run on the processor of a worker."""
    # Not every system has this.
    if not hasattr(os, "sched_setaffinity"):
        return
    processor = processor_of(worker, workers, os.sched_getaffinity(0))
    if processor is not None:
        os.sched_setaffinity(0, {processor})
        give_way()
