"""The form of refusals over HTTP."""

import pytest

from bendybus.http.problems import problem_response
from bendybus.model.errors import EntityNotFound, InvalidOperation, StoreUnavailable
from tests.http.store_shelf import NOON


@pytest.mark.spec("R2.5")
def test_an_unavailable_store_is_a_busy_server_that_names_the_fragment() -> None:
    error = StoreUnavailable(3, "taken offline", entity="orders", fragment=5)
    response = problem_response(error, resource="ns:orders", now=NOON)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "4"
    assert b"fragment 5 of 'orders'" in response.body


def test_a_text_ends_as_a_sentence_whether_it_was_one_or_not() -> None:
    for text in ("Not so", "Not so."):
        response = problem_response(InvalidOperation(text), resource="ns", now=NOON)
        assert b"SubCode=40000. Not so. TrackingId:" in response.body


def test_only_what_may_be_retried_says_when() -> None:
    response = problem_response(EntityNotFound.named("orders"), resource="ns", now=NOON)
    assert "retry-after" not in response.headers
