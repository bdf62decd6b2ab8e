"""The life of one AMQP connection (AMQP 1.0 §2.4, §5.3).

Rule 1: every transition a connection may take is in CONNECTION_TRANSITIONS. Nowhere else in the
        package may code compare a connection state in order to allow or refuse a frame.
Rule 2: both roles share the table; a role simply never meets the other's inputs.
Rule 3: FAIL leads to ENDED from everywhere: what a peer sends after its error is not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from bendybus.amqp.faults import IllegalTransition


class ConnectionState(Enum):
    """Where a connection stands. The names of the standard's figure, with SASL in front."""

    START = auto()
    SASL_INIT_AWAITED = auto()
    SASL_VERDICT_AWAITED = auto()
    SASL_HEADER_SENT = auto()
    SASL_MECHANISMS_AWAITED = auto()
    SASL_OUTCOME_AWAITED = auto()
    SASL_PASSED = auto()
    HEADER_SENT = auto()
    HEADER_EXCHANGED = auto()
    OPEN_SENT = auto()
    OPEN_RECEIVED = auto()
    OPENED = auto()
    CLOSE_PIPELINED = auto()
    OPEN_CLOSE_RECEIVED = auto()
    CLOSE_SENT = auto()
    CLOSE_RECEIVED = auto()
    ENDED = auto()


class ConnectionInput(Enum):
    """What can happen to a connection. FRAME is any frame that belongs to a session."""

    RECEIVE_SASL_HEADER = auto()
    RECEIVE_SASL_INIT = auto()
    SEND_SASL_OUTCOME = auto()
    SEND_SASL_HEADER = auto()
    RECEIVE_SASL_MECHANISMS = auto()
    RECEIVE_SASL_OUTCOME = auto()
    SEND_AMQP_HEADER = auto()
    RECEIVE_AMQP_HEADER = auto()
    SEND_OPEN = auto()
    RECEIVE_OPEN = auto()
    RECEIVE_FRAME = auto()
    SEND_CLOSE = auto()
    RECEIVE_CLOSE = auto()
    FAIL = auto()


_S = ConnectionState
_I = ConnectionInput

CONNECTION_TRANSITIONS: Final[Mapping[tuple[ConnectionState, ConnectionInput], ConnectionState]] = (
    MappingProxyType(
        {
            # A server's side of SASL. A peer may leave SASL out and come with AMQP's own header.
            (_S.START, _I.RECEIVE_SASL_HEADER): _S.SASL_INIT_AWAITED,
            (_S.SASL_INIT_AWAITED, _I.RECEIVE_SASL_INIT): _S.SASL_VERDICT_AWAITED,
            (_S.SASL_VERDICT_AWAITED, _I.SEND_SASL_OUTCOME): _S.SASL_PASSED,
            (_S.START, _I.RECEIVE_AMQP_HEADER): _S.HEADER_EXCHANGED,
            (_S.SASL_PASSED, _I.RECEIVE_AMQP_HEADER): _S.HEADER_EXCHANGED,
            # A client's side.
            (_S.START, _I.SEND_SASL_HEADER): _S.SASL_HEADER_SENT,
            (_S.SASL_HEADER_SENT, _I.RECEIVE_SASL_HEADER): _S.SASL_MECHANISMS_AWAITED,
            (_S.SASL_MECHANISMS_AWAITED, _I.RECEIVE_SASL_MECHANISMS): _S.SASL_OUTCOME_AWAITED,
            (_S.SASL_OUTCOME_AWAITED, _I.RECEIVE_SASL_OUTCOME): _S.SASL_PASSED,
            (_S.START, _I.SEND_AMQP_HEADER): _S.HEADER_SENT,
            (_S.SASL_PASSED, _I.SEND_AMQP_HEADER): _S.HEADER_SENT,
            (_S.HEADER_SENT, _I.RECEIVE_AMQP_HEADER): _S.HEADER_EXCHANGED,
            # Open, both ways round.
            (_S.HEADER_EXCHANGED, _I.SEND_OPEN): _S.OPEN_SENT,
            (_S.HEADER_EXCHANGED, _I.RECEIVE_OPEN): _S.OPEN_RECEIVED,
            (_S.OPEN_SENT, _I.RECEIVE_OPEN): _S.OPENED,
            (_S.OPEN_RECEIVED, _I.SEND_OPEN): _S.OPENED,
            # Peers pipeline: sessions begin before our Open, and what crosses our Close is dropped.
            (_S.OPEN_RECEIVED, _I.RECEIVE_FRAME): _S.OPEN_RECEIVED,
            (_S.OPENED, _I.RECEIVE_FRAME): _S.OPENED,
            (_S.CLOSE_SENT, _I.RECEIVE_FRAME): _S.CLOSE_SENT,
            # Close, both ways round, also pipelined behind an unanswered Open.
            (_S.OPEN_SENT, _I.SEND_CLOSE): _S.CLOSE_PIPELINED,
            (_S.CLOSE_PIPELINED, _I.RECEIVE_OPEN): _S.CLOSE_SENT,
            (_S.OPEN_RECEIVED, _I.RECEIVE_CLOSE): _S.OPEN_CLOSE_RECEIVED,
            (_S.OPEN_CLOSE_RECEIVED, _I.SEND_OPEN): _S.CLOSE_RECEIVED,
            (_S.OPENED, _I.SEND_CLOSE): _S.CLOSE_SENT,
            (_S.OPENED, _I.RECEIVE_CLOSE): _S.CLOSE_RECEIVED,
            (_S.CLOSE_SENT, _I.RECEIVE_CLOSE): _S.ENDED,
            (_S.CLOSE_RECEIVED, _I.SEND_CLOSE): _S.ENDED,
            **{(state, _I.FAIL): _S.ENDED for state in _S},
        }
    )
)


def next_connection_state(state: ConnectionState, happening: ConnectionInput) -> ConnectionState:
    """Return the state that follows, or refuse without changing anything."""
    try:
        return CONNECTION_TRANSITIONS[state, happening]
    except KeyError:
        raise IllegalTransition(f"{happening.name} while {state.name}") from None
