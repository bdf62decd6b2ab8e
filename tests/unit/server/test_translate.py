"""Refusals and outcomes on the wire: one table each, and nothing missing from it."""

import pytest

from bendybus.amqp.outcomes import (
    Accepted,
    AmqpError,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from bendybus.amqp.values import Symbol
from bendybus.content.outgoing_message import decode_changes
from bendybus.model.errors import (
    ArgumentInvalid,
    BusError,
    EntityNotFound,
    NotImplementedYet,
    every_refusal,
)
from bendybus.model.outcome import Abandon, Complete, DeadLetter, Defer, Outcome, Release
from bendybus.server.translate import (
    CONDITIONS,
    amqp_error,
    answer_state,
    description_of,
    outcome_of,
)
from bendybus.testing.clock import NOON


def test_every_refusal_has_a_condition_and_no_condition_is_left_over() -> None:
    assert set(CONDITIONS) == {refusal.code for refusal in every_refusal()}


@pytest.mark.parametrize("refusal", list(every_refusal()))
def test_what_can_be_retried_has_a_condition_that_clients_retry(refusal: type[BusError]) -> None:
    retried = {"com.microsoft:server-busy", "com.microsoft:timeout", "amqp:internal-error"}

    if refusal.is_retryable:
        assert CONDITIONS[refusal.code].condition in retried


def test_an_error_has_text_tracking_id_and_time() -> None:
    error = amqp_error(EntityNotFound.named("sb://ns/orders"), NOON)

    assert error.condition == "amqp:not-found"
    assert type(error.condition) is Symbol
    assert str(error.description).startswith("The messaging entity 'sb://ns/orders' could not be")
    assert "TrackingId:" in str(error.description)
    assert str(error.description).endswith("Timestamp:2027-01-15T08:00:00")
    assert error.info == {}


def test_two_errors_can_be_told_apart_in_a_log() -> None:
    error = NotImplementedYet("x")

    assert description_of(error, NOON) != description_of(error, NOON)


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (Accepted(), Complete()),
        (Released(), Release()),
        (Modified(), Abandon()),
        (Modified(delivery_failed=True, undeliverable_here=False), Abandon()),
        (Modified(undeliverable_here=True), Defer()),
        (Modified(delivery_failed=True, undeliverable_here=True), Defer()),
        (Rejected(), DeadLetter()),
        (Rejected(AmqpError(Symbol("x"), "text")), DeadLetter(None, "text")),
        (None, Release()),
        (Received(0, 0), Release()),
    ],
    ids=str,
)
def test_a_state_means_an_outcome(state: object, outcome: Outcome) -> None:
    assert outcome_of(state) == outcome


def test_a_transactional_state_is_no_outcome_by_itself() -> None:
    with pytest.raises(ArgumentInvalid):
        outcome_of(TransactionalState(b"id", Accepted()))


@pytest.mark.spec("R4")
def test_the_map_of_a_rejection_holds_reason_description_and_changes() -> None:
    info: dict[object, object] = {
        Symbol("DeadLetterReason"): "r",
        Symbol("DeadLetterErrorDescription"): "d",
        Symbol("attempt"): "7",
    }

    outcome = outcome_of(Rejected(AmqpError(Symbol("x"), "not this", info)))

    assert isinstance(outcome, DeadLetter)
    assert (outcome.reason, outcome.description) == ("r", "d")
    assert decode_changes(outcome.property_changes or b"") == {"attempt": "7"}


@pytest.mark.spec("R4")
def test_a_reason_that_is_no_text_is_none() -> None:
    info: dict[object, object] = {Symbol("DeadLetterReason"): 7}

    assert outcome_of(Rejected(AmqpError(Symbol("x"), None, info))) == DeadLetter()


@pytest.mark.spec("R4")
@pytest.mark.parametrize("state", [Modified(message_annotations={Symbol("a"): 1})])
def test_annotations_of_a_modified_state_change_properties(state: Modified) -> None:
    outcome = outcome_of(state)

    assert isinstance(outcome, Abandon)
    assert decode_changes(outcome.property_changes or b"") == {"a": 1}


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Complete(), Accepted()),
        (Abandon(b"x"), Modified(None, False, None)),
        (Defer(b"x"), Modified(None, True, None)),
        (DeadLetter("r", "d", b"x"), Rejected(None)),
        (Release(), Released()),
    ],
    ids=str,
)
def test_a_settlement_is_confirmed_in_kind_without_details(outcome: Outcome, state: object) -> None:
    assert answer_state(outcome) == state
