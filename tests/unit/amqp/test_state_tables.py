"""Every state with every input, for the three state tables.

The matrices are written out a second time, from the figures of the standard, so that a slip in a
table shows. A dot means refused.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from bendybus.amqp.connection_state import ConnectionInput, ConnectionState, next_connection_state
from bendybus.amqp.faults import IllegalTransition
from bendybus.amqp.link_state import LinkInput, LinkState, next_link_state
from bendybus.amqp.session_state import SessionInput, SessionState, next_session_state

LINK = """
                  SEND_ATTACH      RECEIVE_ATTACH   RECEIVE_FRAME    SEND_DETACH      RECEIVE_DETACH   SESSION_OVER
DETACHED          ATTACH_SENT      ATTACH_RECEIVED  .                .                .                ENDED
ATTACH_SENT       .                ATTACHED         .                DETACH_PIPELINED .                ENDED
ATTACH_RECEIVED   ATTACHED         .                ATTACH_RECEIVED  .                GIVEN_UP         ENDED
ATTACHED          .                .                ATTACHED         DETACH_SENT      DETACH_RECEIVED  ENDED
DETACH_PIPELINED  .                DETACH_SENT      .                .                .                ENDED
GIVEN_UP          DETACH_RECEIVED  .                .                .                .                ENDED
DETACH_SENT       .                .                DETACH_SENT      .                ENDED            ENDED
DETACH_RECEIVED   .                .                .                ENDED            .                ENDED
ENDED             .                .                .                .                .                ENDED
"""  # noqa: E501  a matrix

SESSION = """
                SEND_BEGIN  RECEIVE_BEGIN   RECEIVE_FRAME  SEND_END       RECEIVE_END
UNMAPPED        BEGIN_SENT  BEGIN_RECEIVED  .              .              .
BEGIN_SENT      .           MAPPED          .              END_PIPELINED  .
BEGIN_RECEIVED  MAPPED      .               .              .              .
MAPPED          .           .               MAPPED         END_SENT       END_RECEIVED
END_PIPELINED   .           END_SENT        .              .              .
END_SENT        .           .               END_SENT       .              ENDED
END_RECEIVED    .           .               .              ENDED          .
ENDED           .           .               .              .              .
"""

SASL = """
                         RECEIVE_SASL_HEADER      RECEIVE_SASL_INIT     SEND_SASL_OUTCOME  SEND_SASL_HEADER  RECEIVE_SASL_MECHANISMS  RECEIVE_SASL_OUTCOME  SEND_AMQP_HEADER  RECEIVE_AMQP_HEADER  FAIL
START                    SASL_INIT_AWAITED        .                     .                  SASL_HEADER_SENT  .                        .                     HEADER_SENT       HEADER_EXCHANGED     ENDED
SASL_INIT_AWAITED        .                        SASL_VERDICT_AWAITED  .                  .                 .                        .                     .                 .                    ENDED
SASL_VERDICT_AWAITED     .                        .                     SASL_PASSED        .                 .                        .                     .                 .                    ENDED
SASL_HEADER_SENT         SASL_MECHANISMS_AWAITED  .                     .                  .                 .                        .                     .                 .                    ENDED
SASL_MECHANISMS_AWAITED  .                        .                     .                  .                 SASL_OUTCOME_AWAITED     .                     .                 .                    ENDED
SASL_OUTCOME_AWAITED     .                        .                     .                  .                 .                        SASL_PASSED           .                 .                    ENDED
SASL_PASSED              .                        .                     .                  .                 .                        .                     HEADER_SENT       HEADER_EXCHANGED     ENDED
HEADER_SENT              .                        .                     .                  .                 .                        .                     .                 HEADER_EXCHANGED     ENDED
HEADER_EXCHANGED         .                        .                     .                  .                 .                        .                     .                 .                    ENDED
"""  # noqa: E501  a matrix

CONNECTION = """
                     SEND_OPEN       RECEIVE_OPEN   RECEIVE_FRAME  SEND_CLOSE       RECEIVE_CLOSE        FAIL
HEADER_EXCHANGED     OPEN_SENT       OPEN_RECEIVED  .              .                .                    ENDED
OPEN_SENT            .               OPENED         .              CLOSE_PIPELINED  .                    ENDED
OPEN_RECEIVED        OPENED          .              OPEN_RECEIVED  .                OPEN_CLOSE_RECEIVED  ENDED
OPENED               .               .              OPENED         CLOSE_SENT       CLOSE_RECEIVED       ENDED
CLOSE_PIPELINED      .               CLOSE_SENT     .              .                .                    ENDED
OPEN_CLOSE_RECEIVED  CLOSE_RECEIVED  .              .              .                .                    ENDED
CLOSE_SENT           .               .              CLOSE_SENT     .                ENDED                ENDED
CLOSE_RECEIVED       .               .              .              ENDED            .                    ENDED
ENDED                .               .              .              .                .                    ENDED
"""  # noqa: E501  a matrix


def pairs(*matrices: str) -> dict[tuple[str, str], str]:
    """Read matrices into (state, input) -> next state."""
    cells = {}
    for matrix in matrices:
        first, *rows = matrix.strip().splitlines()
        inputs = first.split()
        for row in rows:
            state, *following = row.split()
            cells.update({(state, i): f for i, f in zip(inputs, following, strict=True)})
    return {pair: state for pair, state in cells.items() if state != "."}


Step = Callable[[Any, Any], Enum]
CASES: list[tuple[Step, Enum, Enum, str | None]] = [
    (step, state, happening, matrix.get((state.name, happening.name)))
    for step, states, inputs, matrix in (
        (next_link_state, LinkState, LinkInput, pairs(LINK)),
        (next_session_state, SessionState, SessionInput, pairs(SESSION)),
        (next_connection_state, ConnectionState, ConnectionInput, pairs(SASL, CONNECTION)),
    )
    for state in states
    for happening in inputs
]


@pytest.mark.amqp("2.4.6")
@pytest.mark.amqp("2.5.5")
@pytest.mark.amqp("2.6.3")
@pytest.mark.parametrize(
    ("step", "state", "happening", "following"),
    CASES,
    ids=[f"{state}-{happening.name}" for _, state, happening, _ in CASES],
)
def test_every_state_with_every_input_leads_on_or_is_refused(
    step: Step, state: Enum, happening: Enum, following: str | None
) -> None:
    if following is None:
        with pytest.raises(IllegalTransition, match=f"{happening.name} while {state.name}"):
            step(state, happening)
    else:
        assert step(state, happening).name == following
