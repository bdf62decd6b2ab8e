"""What a worker of `bendybus serve --workers` does, from its first moment to its exit code."""

import asyncio
import json
import signal
import traceback
from dataclasses import asdict
from functools import partial

from bendybus.assemble.running import run_broker
from bendybus.assemble.workers import WorkerPlace
from bendybus.cli.event_loop import loop_factory
from bendybus.cli.failure import end_at_once, ending_in_one_line, say_the_rest
from bendybus.cli.log_output import write_log
from bendybus.doors.arrivals import Arrivals
from bendybus.settings import RunningPorts, Settings


def serve_as_worker(settings: Settings, place: WorkerPlace) -> int:
    """Serve until the keeper lets go; returns the exit code. Nothing gets past it."""
    write_log(settings.log_format, settings.log_level, worker=place.number)
    try:
        with ending_in_one_line(), asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(settings, place))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - beyond this there is only the keeper's own stack
        traceback.print_exc()
        return 1
    finally:
        say_the_rest()
    return 0


async def _serve(settings: Settings, place: WorkerPlace) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    arrivals = Arrivals(
        place.leash,
        place.seat,
        number=place.number,
        workers=settings.workers,
        note_stop=stop.set,
        # The broker was killed, and may be started again at once: the folder must be free.
        note_cut=partial(end_at_once, 1),
    )

    def announce(ports: RunningPorts) -> None:
        arrivals.say_ready(json.dumps(asdict(ports)))

    arrivals.begin()
    await run_broker(settings, announce, stop, arrivals, place.crew)
