"""The life of one AMQP session (AMQP 1.0 §2.5).

Rule 1: every transition a session may take is in SESSION_TRANSITIONS. Nowhere else in the
        package may code compare a session state in order to allow or refuse a frame.
Rule 2: after our End, frames that crossed it are allowed and have no effect, until the peer's End.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from bendybus.amqp.faults import IllegalTransition


class SessionState(Enum):
    """Where a session stands (the standard's figure; ENDED is its second UNMAPPED)."""

    UNMAPPED = auto()
    BEGIN_SENT = auto()
    BEGIN_RECEIVED = auto()
    MAPPED = auto()
    END_PIPELINED = auto()
    END_SENT = auto()
    END_RECEIVED = auto()
    ENDED = auto()


class SessionInput(Enum):
    """What can happen to a session. RECEIVE_FRAME is any frame between Begin and End."""

    SEND_BEGIN = auto()
    RECEIVE_BEGIN = auto()
    RECEIVE_FRAME = auto()
    SEND_END = auto()
    RECEIVE_END = auto()


_S = SessionState
_I = SessionInput

SESSION_TRANSITIONS: Final[Mapping[tuple[SessionState, SessionInput], SessionState]] = (
    MappingProxyType(
        {
            (_S.UNMAPPED, _I.SEND_BEGIN): _S.BEGIN_SENT,
            (_S.UNMAPPED, _I.RECEIVE_BEGIN): _S.BEGIN_RECEIVED,
            (_S.BEGIN_SENT, _I.RECEIVE_BEGIN): _S.MAPPED,
            (_S.BEGIN_RECEIVED, _I.SEND_BEGIN): _S.MAPPED,
            (_S.MAPPED, _I.RECEIVE_FRAME): _S.MAPPED,
            (_S.MAPPED, _I.SEND_END): _S.END_SENT,
            (_S.MAPPED, _I.RECEIVE_END): _S.END_RECEIVED,
            (_S.BEGIN_SENT, _I.SEND_END): _S.END_PIPELINED,
            (_S.END_PIPELINED, _I.RECEIVE_BEGIN): _S.END_SENT,
            (_S.END_SENT, _I.RECEIVE_FRAME): _S.END_SENT,
            (_S.END_SENT, _I.RECEIVE_END): _S.ENDED,
            (_S.END_RECEIVED, _I.SEND_END): _S.ENDED,
        }
    )
)


def next_session_state(state: SessionState, happening: SessionInput) -> SessionState:
    """Return the state that follows, or refuse without changing anything."""
    try:
        return SESSION_TRANSITIONS[state, happening]
    except KeyError:
        raise IllegalTransition(f"{happening.name} while {state.name}") from None
