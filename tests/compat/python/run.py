"""Runs scenarios with whichever version of the official client is on the path.

They run side by side, because a client spends nearly all of its time waiting: opening and closing
a sender or receiver takes it about a second whatever the broker does.
"""

import asyncio
import inspect
import json
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import azure.servicebus

from bendybus.testing.broker_process import broker_process
from tests.compat.cases import PARTITIONED, declaration, write_queues
from tests.compat.python.scenario import Bus, Encrypted
from tests.compat.python.scenarios import SCENARIOS

SIDE_BY_SIDE: Final = 4
# Brokers cost more than clients: of scenarios that start their own, few run at a time.
OWN_BROKERS_MAX: Final = 2
_LOCALS_LENGTH_MAX: Final = 300
_PRINTING: Final = threading.Lock()


def main() -> None:
    """Run the cases of the order, and report each when it has ended."""
    order = json.loads(os.environ["BENDYBUS_COMPAT_ORDER"])
    found = azure.servicebus.__version__
    assert found == order["version"], f"found version {found}; run scripts/setup-tests"
    with ThreadPoolExecutor(SIDE_BY_SIDE) as many, ThreadPoolExecutor(OWN_BROKERS_MAX) as few:
        for case in order["cases"]:
            pool = few if SCENARIOS[case["scenario"]].has_own_broker else many
            pool.submit(_run, case, order)


def _run(case: dict[str, Any], order: dict[str, Any]) -> None:
    try:
        with _bus(case, order) as bus:
            outcome = SCENARIOS[case["scenario"]].run(bus)
            if inspect.isawaitable(outcome):
                asyncio.run(_finish(outcome))
        error = None
    except BaseException as failure:  # noqa: BLE001 - whatever ends a scenario is its result
        error = _explain(failure)
    with _PRINTING:
        sys.stdout.write(json.dumps({"queue": case["queue"], "error": error}) + "\n")
        sys.stdout.flush()


@contextmanager
def _bus(case: dict[str, Any], order: dict[str, Any]) -> Iterator[Bus]:
    declared = SCENARIOS[case["scenario"]]
    queue, is_partitioned = case["queue"], case["kind"] == PARTITIONED
    if not declared.has_own_broker:
        with Bus(
            order["connectionString"],
            order["managementUrl"],
            queue,
            is_partitioned,
            encrypted=Encrypted(**order["encrypted"]),
        ) as bus:
            yield bus
        return
    with tempfile.TemporaryDirectory() as folder:
        queues = [declaration(queue, case["kind"], declared.properties)]
        config = write_queues(Path(folder) / "namespace.json", queues)
        with broker_process(config) as broker:
            places = (broker.connection_string(), broker.management_url)
            with Bus(*places, queue, is_partitioned, broker) as bus:
                yield bus


async def _finish(outcome: Awaitable[None]) -> None:
    await outcome


def _explain(failure: BaseException) -> str:
    """The traceback, with the values of the scenario's own variables."""
    whole = traceback.TracebackException.from_exception(failure, capture_locals=True)
    here = str(Path(__file__).parent)
    for frame in whole.stack:
        is_ours = frame.filename.startswith(here)
        frame.locals = _shortened(frame.locals or {}) if is_ours else None
    return "".join(whole.format())


def _shortened(variables: dict[str, str]) -> dict[str, str]:
    return {name: shown[:_LOCALS_LENGTH_MAX] for name, shown in variables.items()}


if __name__ == "__main__":
    main()
