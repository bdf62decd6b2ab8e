"""The life of one AMQP link (AMQP 1.0 §2.6).

Rule 1: every transition a link may take is in LINK_TRANSITIONS. Nowhere else in the
        package may code compare a link state in order to allow or refuse a frame.
Rule 2: this file does not know which side we are, nor what the link carries.
Rule 3: flows and transfers may come before our Attach answer, because peers pipeline, and those
        that crossed our Detach are allowed and have no effect.
Rule 4: SESSION_OVER leads to ENDED from everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from bendybus.amqp.faults import IllegalTransition


class LinkState(Enum):
    """Where a link stands. GIVEN_UP: the peer detached before we had answered its Attach."""

    DETACHED = auto()
    ATTACH_SENT = auto()
    ATTACH_RECEIVED = auto()
    ATTACHED = auto()
    DETACH_PIPELINED = auto()
    GIVEN_UP = auto()
    DETACH_SENT = auto()
    DETACH_RECEIVED = auto()
    ENDED = auto()


class LinkInput(Enum):
    """What can happen to a link. RECEIVE_FRAME is a flow or a transfer."""

    SEND_ATTACH = auto()
    RECEIVE_ATTACH = auto()
    RECEIVE_FRAME = auto()
    SEND_DETACH = auto()
    RECEIVE_DETACH = auto()
    SESSION_OVER = auto()


_S = LinkState
_I = LinkInput

LINK_TRANSITIONS: Final[Mapping[tuple[LinkState, LinkInput], LinkState]] = MappingProxyType(
    {
        (_S.DETACHED, _I.SEND_ATTACH): _S.ATTACH_SENT,
        (_S.DETACHED, _I.RECEIVE_ATTACH): _S.ATTACH_RECEIVED,
        (_S.ATTACH_SENT, _I.RECEIVE_ATTACH): _S.ATTACHED,
        (_S.ATTACH_RECEIVED, _I.SEND_ATTACH): _S.ATTACHED,
        (_S.ATTACH_RECEIVED, _I.RECEIVE_FRAME): _S.ATTACH_RECEIVED,
        (_S.ATTACHED, _I.RECEIVE_FRAME): _S.ATTACHED,
        (_S.ATTACHED, _I.SEND_DETACH): _S.DETACH_SENT,
        (_S.ATTACHED, _I.RECEIVE_DETACH): _S.DETACH_RECEIVED,
        (_S.ATTACH_SENT, _I.SEND_DETACH): _S.DETACH_PIPELINED,
        (_S.DETACH_PIPELINED, _I.RECEIVE_ATTACH): _S.DETACH_SENT,
        (_S.ATTACH_RECEIVED, _I.RECEIVE_DETACH): _S.GIVEN_UP,
        (_S.GIVEN_UP, _I.SEND_ATTACH): _S.DETACH_RECEIVED,
        (_S.DETACH_SENT, _I.RECEIVE_FRAME): _S.DETACH_SENT,
        (_S.DETACH_SENT, _I.RECEIVE_DETACH): _S.ENDED,
        (_S.DETACH_RECEIVED, _I.SEND_DETACH): _S.ENDED,
        **{(state, _I.SESSION_OVER): _S.ENDED for state in _S},
    }
)


def next_link_state(state: LinkState, happening: LinkInput) -> LinkState:
    """Return the state that follows, or refuse without changing anything."""
    try:
        return LINK_TRANSITIONS[state, happening]
    except KeyError:
        raise IllegalTransition(f"{happening.name} while {state.name}") from None
