"""Doors on the loop that the broker runs on; the other tests are on the standard one."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from bendybus.doors.local_authority import AuthorityFolder
from tests.doors import test_door, test_tls

TESTS = {
    name: (test, parameters)
    for module in (test_door, test_tls)
    for name, test in vars(module).items()
    if name.startswith("test_")
    and inspect.iscoroutinefunction(test)
    and (parameters := set(inspect.signature(test).parameters)) <= {"files", "monkeypatch"}
}


@pytest.mark.parametrize("name", TESTS)
def test_doors_do_the_same_on_uvloop(
    name: str, files: AuthorityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    test: Callable[..., Coroutine[Any, Any, None]]
    test, parameters = TESTS[name]
    given = {"files": files, "monkeypatch": monkeypatch}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test(**{key: given[key] for key in parameters}))
