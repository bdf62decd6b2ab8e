"""The sessions of one connection: which channel is which, from Begin to End (AMQP 1.0 §2.5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bendybus.amqp.conditions import FRAMING_ERROR, ILLEGAL_STATE
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.events import BeginReceived, EndReceived, Event, SessionFailed
from bendybus.amqp.faults import ConnectionFault, SessionFault
from bendybus.amqp.outbox import Outbox
from bendybus.amqp.performatives import (
    AmqpError,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from bendybus.amqp.session import AmqpSession
from bendybus.amqp.session_input import (
    take_attach,
    take_detach,
    take_disposition,
    take_flow,
    take_transfer,
)
from bendybus.amqp.session_state import SessionInput
from bendybus.amqp.window import SessionWindow

SERVER_FIRST_DELIVERY_ID: Final = 0x40000000
"""Older pyamqp mixes up its own delivery ids with ours, so ours begin where its never come."""

SessionBody: TypeAlias = Begin | Attach | Flow | Transfer | Disposition | Detach | End


@dataclass(slots=True, eq=False)
class Channels:
    """Finds the session of a frame and lets the frame do its work there."""

    settings: ConnectionSettings
    role: Role
    outbox: Outbox
    by_own: dict[int, AmqpSession] = field(default_factory=dict)
    by_peer: dict[int, AmqpSession] = field(default_factory=dict)

    def begin(self) -> AmqpSession:
        """Begin a session on a free channel."""
        session = self._new_session(0)
        session.send_begin()
        return session

    def drop_all(self) -> None:
        """Forget every session: the connection is over, and no link may say anything more."""
        for session in (*self.by_own.values(), *self.by_peer.values()):
            session.drop_links()
        self.by_own.clear()
        self.by_peer.clear()

    def take(self, channel: int, body: SessionBody, payload: bytes, events: list[Event]) -> None:
        """Let one frame do its work."""
        if channel > self.settings.channel_max:
            raise ConnectionFault(
                FRAMING_ERROR,
                f"channel {channel} is above channel-max {self.settings.channel_max}",
            )
        session = self.by_peer.get(channel)
        if isinstance(body, Begin):
            self._take_begin(channel, session, body, events)
        elif session is None:
            raise ConnectionFault(ILLEGAL_STATE, f"channel {channel} has no session")
        elif isinstance(body, End):
            self._take_end(channel, session, body, events)
        else:
            session.advance(SessionInput.RECEIVE_FRAME)
            if session.is_answerable:
                self._take_in_session(session, body, payload, events)

    def _take_in_session(
        self,
        session: AmqpSession,
        body: Attach | Flow | Transfer | Disposition | Detach,
        payload: bytes,
        events: list[Event],
    ) -> None:
        try:
            if isinstance(body, Transfer):
                take_transfer(session, body, payload, events)
            elif isinstance(body, Disposition):
                take_disposition(session, body, events)
            elif isinstance(body, Flow):
                take_flow(session, body, events)
            elif isinstance(body, Attach):
                take_attach(session, body, events)
            else:
                take_detach(session, body, events)
        except SessionFault as fault:
            session.has_failed = True
            session.end(AmqpError(fault.condition, fault.description))
            events.append(SessionFailed(session, fault.condition, fault.description))

    def _take_begin(
        self, channel: int, session: AmqpSession | None, begin: Begin, events: list[Event]
    ) -> None:
        if session is None and begin.remote_channel is None:
            session = self._new_session(channel)
        elif session is None:
            session = self.by_own.get(begin.remote_channel or 0)
            if session is None:
                text = f"Begin answers channel {begin.remote_channel}, which we did not begin"
                raise ConnectionFault(ILLEGAL_STATE, text)
        session.advance(SessionInput.RECEIVE_BEGIN)
        session.peer_channel = channel
        session.window.peer_begins(begin.next_outgoing_id, begin.incoming_window)
        self.by_peer[channel] = session
        if begin.remote_channel is None:
            session.send_begin()
        events.append(BeginReceived(session))

    def _take_end(self, channel: int, session: AmqpSession, end: End, events: list[Event]) -> None:
        session.advance(SessionInput.RECEIVE_END)
        session.end()
        session.drop_links()
        del self.by_peer[channel]
        del self.by_own[session.channel]
        if not session.has_failed:
            events.append(EndReceived(session, end.error))

    def _new_session(self, channel: int) -> AmqpSession:
        while channel in self.by_own:
            channel += 1
        first_id = SERVER_FIRST_DELIVERY_ID if self.role is Role.SERVER else 0
        window = SessionWindow(channel, self.settings, self.outbox)
        session = self.by_own[channel] = AmqpSession(window, first_id)
        return session
