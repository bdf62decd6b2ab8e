"""The HTTP server on the loop that the broker runs on; the other tests are on the standard one."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tests.http import test_serving


def is_drawn(test: object) -> bool:
    """Whether its examples are drawn, which needs a runner of its own."""
    return hasattr(test, "is_hypothesis_test")


TESTS = {
    name: test
    for name, test in vars(test_serving).items()
    if name.startswith("test_") and inspect.iscoroutinefunction(test) and not is_drawn(test)
    if not inspect.signature(test).parameters
}


@pytest.mark.parametrize("name", TESTS)
def test_the_server_does_the_same_on_uvloop(name: str) -> None:
    test: Callable[[], Coroutine[Any, Any, None]] = TESTS[name]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test())
