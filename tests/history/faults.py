"""Planting faults in the broker and its store, and having a history look for them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from bendybus.store.sqlite.statements import STATEMENTS
from tests.history.world import World

Patch = pytest.MonkeyPatch

# Looking for the first failure only: shrinking it would take longer than finding it. Most are found
# among the first hundred histories; those of the rarest kind took 400 once.
SEARCH: Final = settings(
    max_examples=2_000,
    stateful_step_count=50,
    phases=[Phase.generate],
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Fault:
    """Something that the broker could get wrong, and where that would show."""

    plant: Callable[[Patch], None]
    found_by: type[World]


def replace_sql(name: str, old: str, new: str, patch: Patch) -> None:
    """Let a statement mean something else."""
    before = STATEMENTS[name]
    after = before.replace(old, new)
    assert after != before
    # One that could not be run at all would be found by anybody.
    assert _parameter_count(after) == _parameter_count(before)
    patch.setitem(STATEMENTS, name, after)


def _parameter_count(statement: str) -> int:
    return max(map(int, re.findall(r"\?(\d+)", statement)), default=0)


def expect_found(fault: Fault, patch: Patch) -> None:
    """Plant a fault; fail unless the history that ought to find it does."""
    fault.plant(patch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(fault.found_by, settings=SEARCH)
