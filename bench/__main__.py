"""`bench/run`: measure this broker and its peer side by side and judge the promises."""

import argparse
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from bench import machine
from bench.brokers import System
from bench.clients import Clients
from bench.peer_rabbitmq import RabbitMq
from bench.processes import BenchmarkError, allow_many_files
from bench.promises import judge
from bench.readings import Readings
from bench.report import Outcome, append_history, print_outcome, write_page
from bench.rounds import PARTS, PEER_PART, SCENARIOS, Run
from bench.size import FULL, QUICK, Size
from bench.subject_bendybus import Bendybus

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parent / "docs" / "benchmark.md"
HISTORY: Final = HERE / "history"
WORK: Final = HERE / ".work"


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: all promises of the chosen scenarios kept; 1: one broken; 2: the run failed."""
    options = parse(arguments)
    # End by the exit of every block, so that no broker is left running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    size: Size = QUICK if options.quick else FULL
    are_kept = True
    for part, scenarios in PARTS.items():
        chosen = [name for name in scenarios if name in options.only]
        if not chosen:
            continue
        try:
            outcome = measure(part, chosen, size, options.work)
        except (BenchmarkError, OSError, subprocess.SubprocessError) as failure:
            print(f"bench: {failure}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            return 130
        print_outcome(outcome)
        if size is FULL:
            keep(outcome, is_whole=len(chosen) == len(scenarios))
            are_kept &= all(verdict.is_kept() for verdict in outcome.verdicts)
    if size is QUICK:
        print("quick run: it shows that everything works; its figures are not judged and not kept")
    return 0 if are_kept else 1


def keep(outcome: Outcome, *, is_whole: bool) -> None:
    """Add the run to the history; only a whole part goes onto the page, which has no gaps."""
    print(f"kept in {append_history(HISTORY, outcome).relative_to(HERE.parent)}")
    if is_whole:
        write_page(PAGE, outcome)
        print(f"written to {PAGE.relative_to(HERE.parent)}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="bench/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few messages, one round, no verdict")
    parser.add_argument(
        "--only",
        type=scenario_list,
        default=list(SCENARIOS),
        metavar="NAME,…",
        help=f"scenarios to run, of: {', '.join(SCENARIOS)}; or all of {' or '.join(PARTS)}",
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=WORK,
        metavar="DIR",
        help="where brokers keep their data meanwhile; on the disk to be measured",
    )
    return parser.parse_args(arguments)


def scenario_list(text: str) -> list[str]:
    """Names separated by commas, each of a scenario or of a part with all its scenarios."""
    chosen: list[str] = []
    for name in text.split(","):
        if name not in (*SCENARIOS, *PARTS):
            known = ", ".join((*SCENARIOS, *PARTS))
            raise argparse.ArgumentTypeError(f"{name!r} is none of {known}")
        chosen += PARTS.get(name, (name,))
    return chosen


def measure(part: str, scenarios: Sequence[str], size: Size, work: Path) -> Outcome:
    """Build the clients, run scenarios of one part, judge."""
    allow_many_files()
    clients = Clients(WORK / "bin")
    clients.build()
    readings = Readings()
    peer, subject = RabbitMq(), Bendybus()
    measured: tuple[System, ...] = (peer, subject) if part == PEER_PART else (subject,)
    begun, described = datetime.now(UTC), machine.describe(work)
    data = work / "data"
    say = partial(print, flush=True)
    Run(peer, subject, clients, size, data, readings, say).perform(scenarios)
    shutil.rmtree(data, ignore_errors=True)
    return Outcome(
        at=begun,
        part=part,
        size=size.name,
        versions={system.name: system.version() for system in measured},
        machine=described,
        readings=readings,
        verdicts=judge(readings, scenarios),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
