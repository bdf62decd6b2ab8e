"""Every history beside this one, with its stores in databases of a server: the same models hold."""

from typing import Final

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from bendybus.testing.blank_stores import BlankStores
from tests.history.grounds import databases
from tests.history.test_any_history import ConventionalHistory, PartitionedHistory
from tests.history.test_forwarding_history import (
    ConventionalForwardingHistory,
    PartitionedForwardingHistory,
)
from tests.history.test_life_history import ConventionalLifeHistory, PartitionedLifeHistory
from tests.history.test_reader_history import (
    ConventionalReaderHistory,
    PartitionedReaderHistory,
)
from tests.history.test_session_history import (
    ConventionalSessionHistory,
    PartitionedSessionHistory,
)
from tests.history.test_set_aside_history import (
    ConventionalSetAsideHistory,
    PartitionedSetAsideHistory,
)
from tests.history.test_topic_history import ConventionalTopicHistory, PartitionedTopicHistory
from tests.history.test_transaction_history import (
    ConventionalTransactionHistory,
    PartitionedTransactionHistory,
)
from tests.history.two_front_ends import TwoFrontEnds
from tests.history.world import STEPS_MAX, World

QUICK: Final[tuple[type[World], ...]] = (
    ConventionalHistory,
    ConventionalReaderHistory,
    ConventionalSessionHistory,
    ConventionalSetAsideHistory,
    ConventionalTopicHistory,
    ConventionalTransactionHistory,
)
# These wait for what goes on beside them, or look at all fragments in all stores after every step.
OTHERS: Final[tuple[type[World], ...]] = (
    ConventionalForwardingHistory,
    ConventionalLifeHistory,
    PartitionedHistory,
    PartitionedForwardingHistory,
    PartitionedLifeHistory,
    PartitionedReaderHistory,
    PartitionedSessionHistory,
    PartitionedSetAsideHistory,
    PartitionedTopicHistory,
    PartitionedTransactionHistory,
)
FEW: Final = settings(max_examples=3, stateful_step_count=20)
MANY: Final = settings(max_examples=25, stateful_step_count=STEPS_MAX)


def run_on(blank_stores: BlankStores, how_many: settings, *histories: type[World]) -> None:
    ground = {"ground": staticmethod(databases(blank_stores))}
    there = type(f"{histories[-1].__name__}OnServers", histories, ground)
    run_state_machine_as_test(there, settings=how_many)


@pytest.mark.spec("R1.2")
@pytest.mark.parametrize("history", QUICK, ids=lambda history: history.__name__)
def test_a_history_on_servers_equals_its_model(
    history: type[World], blank_stores: BlankStores
) -> None:
    run_on(blank_stores, FEW, history)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("history", [*QUICK, *OTHERS], ids=lambda history: history.__name__)
def test_many_histories_on_servers_equal_their_models(
    history: type[World], blank_stores: BlankStores
) -> None:
    run_on(blank_stores, MANY, history)


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    "history",
    [ConventionalHistory, ConventionalSessionHistory],
    ids=lambda history: history.__name__,
)
def test_a_history_at_two_front_ends_equals_its_model(
    history: type[World], blank_stores: BlankStores
) -> None:
    run_on(blank_stores, FEW, TwoFrontEnds, history)


@pytest.mark.prove
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("history", QUICK, ids=lambda history: history.__name__)
def test_many_histories_at_two_front_ends_equal_their_models(
    history: type[World], blank_stores: BlankStores
) -> None:
    run_on(blank_stores, MANY, TwoFrontEnds, history)
