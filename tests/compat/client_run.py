"""A program with an official client in it, which runs scenarios and reports on each."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.compat.cases import Case

# All scenarios of one run happen side by side; this bounds the slowest on a busy machine.
RUN_SECONDS_MAX: Final = 400.0
END_SECONDS_MAX: Final = 10.0

# Tells what comes of a case, alone, that had failed with an error; None is success.
SecondTry = Callable[[Case, str], str | None]


class ClientRun:
    """One such program: it is told its cases at once, and reports them in any order.

    It is also told the encrypted doors of the broker, and the authority that it may trust there.

    A line is `{"queue": ..., "error": null or text}`. Whatever else the program has to say goes
    into a file, of which a failure shows the end.
    """

    def __init__(
        self,
        command: Sequence[str],
        cases: Sequence[Case],
        *,
        environment: Mapping[str, str],
        connection_string: str,
        management_url: str,
        encrypted: Mapping[str, Any],
        log: Path,
    ) -> None:
        self._log = log
        self._errors: dict[str, str | None] = {}
        self._changed = threading.Condition()
        self._has_ended = False
        self._deadline = time.monotonic() + RUN_SECONDS_MAX
        order = {
            "version": cases[0].client_version,
            "connectionString": connection_string,
            "managementUrl": management_url,
            "encrypted": dict(encrypted),
            "cases": [
                {"scenario": case.scenario, "queue": case.queue, "kind": case.kind}
                for case in cases
            ],
        }
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment, "BENDYBUS_COMPAT_ORDER": json.dumps(order)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def error_of(self, case: Case) -> str | None:
        """Wait for the report of a case; None is success."""
        with self._changed:
            while case.queue not in self._errors:
                remaining = self._deadline - time.monotonic()
                if self._has_ended or remaining <= 0:
                    return f"the client never reported this scenario:\n{self._log_end()}"
                self._changed.wait(remaining)
            return self._errors[case.queue]

    def await_end(self) -> None:
        """Wait until the program has reported all of its cases, or its time is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._has_ended, max(0.0, self._deadline - time.monotonic())
            )

    def close(self) -> None:
        """End the program if it has not ended by itself."""
        try:
            if self._has_ended:
                self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            pass
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            report = json.loads(line)
            with self._changed:
                self._errors[report["queue"]] = report["error"]
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
