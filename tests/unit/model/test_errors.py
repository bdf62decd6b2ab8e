"""Codes of refusals: stable, distinct, documented, answered."""

from collections import Counter
from pathlib import Path

import pytest

from bendybus.http.problems import PROBLEMS
from bendybus.model.errors import (
    BusError,
    EntityNotFound,
    StartRefused,
    StoreFailed,
    StoreUnavailable,
    Unauthorized,
    every_refusal,
    every_start_refusal,
)

ERRORS_PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
REFUSALS: list[type[BusError]] = list(every_refusal())
ALL: list[type[BusError] | type[StartRefused]] = [*REFUSALS, *every_start_refusal()]


@pytest.mark.parametrize("refusal", ALL, ids=lambda refusal: refusal.__name__)
def test_every_code_is_in_the_docs(refusal: type[BusError] | type[StartRefused]) -> None:
    assert f"| `{refusal.code}` |" in ERRORS_PAGE.read_text()


def test_no_two_refusals_share_a_code() -> None:
    assert [code for code, count in Counter(each.code for each in ALL).items() if count > 1] == []


def test_every_refusal_has_an_http_answer_and_no_answer_is_left_over() -> None:
    assert set(PROBLEMS) == {refusal.code for refusal in REFUSALS}


def test_refusals_of_refusals_are_found_too() -> None:
    assert {"token-malformed", "argument-out-of-range"} <= {refusal.code for refusal in REFUSALS}


def test_what_is_retryable_answers_over_http_with_a_status_that_clients_retry() -> None:
    retried = {408, 429, 500, 503}
    assert {PROBLEMS[each.code].status for each in REFUSALS if each.is_retryable} <= retried


def test_a_missing_entity_is_told_in_the_words_that_clients_recognise() -> None:
    text = str(EntityNotFound.named("sb://ns/orders"))
    assert "The messaging entity 'sb://ns/orders' could not be found." in text


def test_a_missing_right_names_the_right_and_the_resource() -> None:
    text = str(Unauthorized.missing("Send", "sb://ns/orders"))
    assert "'Send' claim(s) are required" in text
    assert "Resource: 'sb://ns/orders'" in text


@pytest.mark.spec("R2.5")
def test_an_unavailable_store_names_itself_and_the_fragment_it_holds() -> None:
    error = StoreUnavailable(3, "taken offline", entity="orders", fragment=7)
    assert error.message == (
        "Messaging store 3, which holds fragment 7 of 'orders', is unavailable: taken offline."
    )
    assert (error.store, error.entity, error.fragment) == (3, "orders", 7)


def test_a_store_can_be_unavailable_without_a_fragment_in_play() -> None:
    assert str(StoreUnavailable(3, "disk full")) == "Messaging store 3 is unavailable: disk full."


def test_a_store_that_failed_while_writing_says_so() -> None:
    assert str(StoreFailed(2, "I/O error")) == (
        "Messaging store 2 failed while writing: I/O error."
    )
