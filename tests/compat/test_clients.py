"""The official clients, unmodified, find everything as they know it from the service.

The scenarios are beside this file: `python/` for both versions of the Python client, `js/` for
the JavaScript one, and `proton/` for Apache Proton's, which has the transactions that those lack.
Each is a test here, once for every client and kind of queue.
"""

import json
from pathlib import Path

import pytest

from tests.compat.cases import KINDS, PROTON_PYTHON, Case
from tests.compat.client_run import RUN_SECONDS_MAX, ClientRun, SecondTry
from tests.compat.python.scenarios import SCENARIOS

PYTHON_CLIENTS = ("python-7.15.0", "python-7.14.3")
JAVASCRIPT_CLIENT = "javascript-7.9.5"
PROTON_CLIENT = "proton-0.40.0"
PROTON_SCENARIOS = Path(__file__).parent / "proton" / "scenarios.json"
IF_PROTON = pytest.mark.skipif(
    not PROTON_PYTHON.exists(),
    reason="NOT PROVED HERE: Apache Proton's client could not be built; see .cache/proton.log",
)
JAVASCRIPT_SCENARIOS = Path(__file__).parent / "js" / "scenarios.json"

# What one front end does matters here to who is at another.
ALWAYS_OF_MANY = {
    "a_locked_message_is_not_given_to_another_receiver",
    "a_message_that_comes_during_the_wait_ends_it",
    "a_message_that_is_sent_twice_comes_once",
    "a_queue_lives_from_its_creation_to_its_end",
    "a_receiver_is_told_that_its_queue_is_gone",
    "a_session_that_somebody_holds_is_refused_until_it_is_given_back",
    "each_subscription_gets_what_its_rules_let_in",
    "messages_of_one_key_stay_in_its_fragment_and_in_order",
    "one_receiver_settles_what_another_received",
    "scheduled_messages_come_when_their_time_has_come",
    "the_next_session_is_each_session_once",
    "what_is_sent_to_a_forwarding_queue_is_received_where_it_leads",
    "who_waits_for_any_session_gets_the_first_that_comes",
}


def python_cases() -> list[object]:
    """Every Python scenario, with the rules that it is marked to prove."""
    return [
        pytest.param(
            case := Case(client, name, kind, declared.properties),
            id=str(case),
            marks=getattr(declared.run, "pytestmark", []),
        )
        for client in PYTHON_CLIENTS
        for name, declared in SCENARIOS.items()
        for kind in declared.kinds
        if client == PYTHON_CLIENTS[0] or not declared.is_for_newest
    ]


def cases_of_many() -> list[object]:
    """All scenarios again, of clients that come to several front ends; a few of them always."""
    of_python = [
        Case(PYTHON_CLIENTS[0], name, kind, declared.properties, is_shared=True)
        for name, declared in SCENARIOS.items()
        for kind in declared.kinds
        if not declared.has_own_broker
    ]
    of_javascript = [
        Case(JAVASCRIPT_CLIENT, name, kind, properties, is_shared=True)
        for name, properties in json.loads(JAVASCRIPT_SCENARIOS.read_text()).items()
        for kind in KINDS
    ]
    of_proton = [
        Case(PROTON_CLIENT, name, kind, {}, is_shared=True)
        for name in json.loads(PROTON_SCENARIOS.read_text())
        for kind in KINDS
    ]
    always = [case for case in of_python if case.scenario in ALWAYS_OF_MANY]
    return [
        *(pytest.param(case, id=str(case)) for case in always),
        *(
            pytest.param(case, id=str(case), marks=pytest.mark.prove)
            for case in (*of_python, *of_javascript)
            if case not in always
        ),
        *(
            pytest.param(case, id=str(case), marks=[pytest.mark.prove, IF_PROTON])
            for case in of_proton
        ),
    ]


def javascript_cases() -> list[object]:
    """Every JavaScript scenario; the list is a file that both sides read."""
    scenarios = json.loads(JAVASCRIPT_SCENARIOS.read_text())
    return [
        pytest.param(case := Case(JAVASCRIPT_CLIENT, name, kind, properties), id=str(case))
        for name, properties in scenarios.items()
        for kind in KINDS
    ]


def proton_cases() -> list[object]:
    """Every scenario of Apache Proton's client; the list is a file that both sides read."""
    scenarios = json.loads(PROTON_SCENARIOS.read_text())
    return [
        pytest.param(
            case := Case(PROTON_CLIENT, name, kind, {}),
            id=str(case),
            marks=[pytest.mark.spec("R5.4"), IF_PROTON],
        )
        for name in scenarios
        for kind in KINDS
    ]


# The first of them waits for nearly all the others, which run beside it.
@pytest.mark.timeout(RUN_SECONDS_MAX + 60)
@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    "case", [*python_cases(), *javascript_cases(), *proton_cases(), *cases_of_many()]
)
def test_the_client_finds_what_it_expects(
    case: Case, runs: dict[str, ClientRun], second_try: SecondTry
) -> None:
    error = runs[str(case)].error_of(case)
    if error is not None:
        error = second_try(case, error)
    if error is not None:
        pytest.fail(error, pytrace=False)
