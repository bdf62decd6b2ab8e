"""AmqpConnection: bytes in, events out; calls in, bytes out.

    receive_data(bytes) -> events     what the peer did
    calls on it, its sessions, links  what we do
    data_to_send() -> bytes           what must go to the peer

The engine answers by itself what needs no decision: headers, Begin, End, echoes, windows, errors.
Everything else is the caller's. Any bytes lead to events or to one `ConnectionFailed`. Memory: at
most one frame is buffered, one delivery per link is assembled, and the answers to one read are in
proportion to it, so a caller that stops reading while its peer does not read bounds everything.
"""

from __future__ import annotations

from typing import Final

from bendybus.amqp.channels import Channels
from bendybus.amqp.conditions import (
    DECODE_ERROR,
    FRAMING_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.connection_state import (
    CONNECTION_TRANSITIONS,
    ConnectionInput,
    ConnectionState,
    next_connection_state,
)
from bendybus.amqp.events import (
    CloseReceived,
    ConnectionFailed,
    Event,
    OpenReceived,
    SaslInitReceived,
)
from bendybus.amqp.faults import ConnectionFault, IllegalTransition
from bendybus.amqp.frames import (
    AMQP_FRAME,
    AMQP_HEADER,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    FRAME_SIZE_MIN_MAX,
    HEARTBEAT,
    PROTOCOL_HEADER_SIZE,
    SASL_FRAME,
    SASL_HEADER,
    encode_frame,
    encode_sasl_frame,
)
from bendybus.amqp.handshake import (
    check_outcome,
    choose_mechanism,
    header_answer,
    header_input,
    may_become_header,
)
from bendybus.amqp.idle import PEER_TIMEOUT_MIN_MS, IdleTimer
from bendybus.amqp.outbox import Outbox
from bendybus.amqp.performatives import (
    AmqpError,
    Close,
    Open,
    SaslCode,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    decode_performative,
    decode_sasl_body,
)
from bendybus.amqp.plain_frames import PlainFrames
from bendybus.amqp.session import AmqpSession
from bendybus.amqp.values import DecodeError

_S = ConnectionState
_HEADER_STATES: Final = frozenset({_S.START, _S.SASL_HEADER_SENT, _S.SASL_PASSED, _S.HEADER_SENT})
_SASL_STATES: Final = frozenset(
    {_S.SASL_INIT_AWAITED, _S.SASL_MECHANISMS_AWAITED, _S.SASL_OUTCOME_AWAITED}
)
_OVER_STATES: Final = frozenset({_S.OPEN_CLOSE_RECEIVED, _S.CLOSE_RECEIVED, _S.ENDED})
_DEAF_STATES: Final = _OVER_STATES | {_S.SASL_VERDICT_AWAITED}
"""What kind of bytes comes next: a protocol header, SASL frames, nothing, or else AMQP frames."""


class AmqpConnection:
    """One connection, from either side. Create it, then feed it what the socket gives."""

    def __init__(self, settings: ConnectionSettings, role: Role = Role.SERVER) -> None:
        self.settings = settings
        self.role = role
        self.peer_open: Open | None = None
        self._state = ConnectionState.START
        self._outbox = Outbox()
        self._idle = IdleTimer(settings.idle_timeout_ms)
        self._plain = PlainFrames()
        self._pending = bytearray()
        self._pending_wanted = 0
        """Less than this cannot be read, so half a frame is not looked at again and again."""
        self._channels = Channels(settings, role, self._outbox)
        self._own_open: Open | None = None
        if role is Role.CLIENT:
            self._send_first_header()

    # Bytes

    def receive_data(self, data: bytes) -> list[Event]:
        """Take bytes from the peer; return what they did, in order."""
        self._idle.has_received = True
        if self._state in _OVER_STATES:
            return []
        pending = self._pending
        if not pending and len(data) >= self._pending_wanted:
            return self._read(data)
        pending += data
        if len(pending) < self._pending_wanted:
            return []
        if self._state is ConnectionState.SASL_VERDICT_AWAITED:
            return self._check_paused()
        data = bytes(pending)
        pending.clear()
        return self._read(data)

    @property
    def unfinished_bytes_max(self) -> int:
        """How much is kept, on all links, of deliveries of which more is to come."""
        return self._outbox.unfinished_bytes_max

    @unfinished_bytes_max.setter
    def unfinished_bytes_max(self, size: int) -> None:
        self._outbox.unfinished_bytes_max = size

    def data_to_send(self) -> bytes:
        """Return and forget what must go to the peer."""
        data = self._outbox.take()
        if data:
            self._idle.has_sent = True
        return data

    @property
    def is_over(self) -> bool:
        """Nothing more will be read or said: flush and close the socket."""
        return self._state is ConnectionState.ENDED

    # Calls

    def open(self, **fields: object) -> None:
        """Send our Open, now or as soon as the headers are exchanged.

        Fields beyond those of the settings may be given: `properties`, `offered_capabilities`, ...
        """
        settings = self.settings
        self._own_open = Open(
            container_id=settings.container_id,
            hostname=settings.hostname,
            max_frame_size=settings.frame_size_max,
            channel_max=settings.channel_max,
            idle_time_out=settings.idle_timeout_ms or None,
            **fields,  # type: ignore[arg-type]  # checked when encoded
        )
        self._open_if_due()

    def close(self, error: AmqpError | None = None) -> None:
        """Send Close, or answer the peer's. Does nothing if that is done already."""
        if self._can(ConnectionInput.SEND_OPEN):
            self.open()
        if self._can(ConnectionInput.SEND_CLOSE):
            self._advance(ConnectionInput.SEND_CLOSE)
            self._outbox.frames.append(encode_frame(0, Close(error)))
        else:
            self._advance(ConnectionInput.FAIL)
        self._channels.drop_all()

    def begin(self) -> AmqpSession:
        """Begin a session; links can be attached to it at once."""
        return self._channels.begin()

    def sasl_outcome(self, ok: bool) -> list[Event]:  # noqa: FBT001  it is all there is to say
        """Give the verdict on a `SaslInitReceived` and read on: clients pipeline."""
        self._advance(ConnectionInput.SEND_SASL_OUTCOME)
        code = SaslCode.OK if ok else SaslCode.AUTH
        self._outbox.prelude.append(encode_sasl_frame(SaslOutcome(code, b"")))
        if not ok:
            self._advance(ConnectionInput.FAIL)
            return []
        data = bytes(self._pending)
        self._pending.clear()
        return self._read(data)

    def tick(self, now_ms: int) -> list[Event]:
        """Heartbeat if the peer needs one; give up if the peer was silent for too long."""
        if self.is_over:
            return []
        is_heartbeat_due, is_peer_gone = self._idle.tick(now_ms)
        if is_peer_gone:
            events: list[Event] = []
            text = f"nothing came for {2 * self.settings.idle_timeout_ms} ms"
            self._fail(RESOURCE_LIMIT_EXCEEDED, text, events)
            return events
        if is_heartbeat_due:
            self._outbox.frames.append(HEARTBEAT)
        return []

    def next_tick_ms(self, now_ms: int) -> int | None:
        """Return after how many milliseconds `tick` is due, or None for never."""
        return None if self.is_over else self._idle.next_tick_ms(now_ms)

    # Reading

    def _read(self, buf: bytes) -> list[Event]:
        events: list[Event] = []
        pos = 0
        try:
            pos = self._read_all(buf, events)
        except ConnectionFault as fault:
            self._fail(fault.condition, fault.description, events)
        except DecodeError as error:
            self._fail(DECODE_ERROR, str(error), events)
        except IllegalTransition as error:
            self._fail(ILLEGAL_STATE, str(error), events)
        if not self.is_over:
            self._pending += memoryview(buf)[pos:]
        return events

    def _read_all(self, buf: bytes, events: list[Event]) -> int:
        """Read until bytes run out or nothing may be read; return how far that was."""
        pos = 0
        while True:
            if self._state in _DEAF_STATES:
                self._pending_wanted = 0
                return pos
            if self._state in _HEADER_STATES:
                after = self._read_header(buf, pos)
            else:
                after = self._plain.read(
                    buf, pos, self.settings.frame_size_max, self._channels.by_peer, events
                )
                after = self._read_frame(buf, after, events) or after
            if after == pos:
                return pos
            pos = after

    def _read_header(self, buf: bytes, pos: int) -> int:
        header = buf[pos : pos + PROTOCOL_HEADER_SIZE]
        if len(header) < PROTOCOL_HEADER_SIZE and may_become_header(header):
            self._pending_wanted = 0
            return pos
        happening = header_input(header)
        self._advance(happening)
        self._outbox.prelude.append(header_answer(self.role, self.settings, happening))
        self._open_if_due()
        return pos + PROTOCOL_HEADER_SIZE

    def _read_frame(self, buf: bytes, pos: int, events: list[Event]) -> int | None:
        """Read one frame by the general way; None if it is not all there."""
        left = len(buf) - pos
        if left < FRAME_HEADER_SIZE:
            self._pending_wanted = FRAME_HEADER_SIZE
            return None
        size, doff, kind, channel = FRAME_HEADER.unpack_from(buf, pos)
        self._check_frame(size, doff, kind)
        if left < size:
            self._pending_wanted = size
            return None
        self._pending_wanted = FRAME_HEADER_SIZE
        after = int(pos + size)
        frame = memoryview(buf)[pos + 4 * doff : after]
        if kind == SASL_FRAME:
            self._on_sasl_frame(frame, events)
        elif len(frame):
            self._on_frame(channel, frame, events)
        return after

    def _check_frame(self, size: int, doff: int, kind: int) -> None:
        expected = SASL_FRAME if self._state in _SASL_STATES else AMQP_FRAME
        if kind != expected:
            raise ConnectionFault(FRAMING_ERROR, f"a frame of type {kind} instead of {expected}")
        if size > self.settings.frame_size_max:
            limit = self.settings.frame_size_max
            raise ConnectionFault(FRAMING_ERROR, f"a frame of {size} bytes, more than {limit}")
        if doff < 2 or 4 * doff > size:
            raise ConnectionFault(FRAMING_ERROR, f"a frame of {size} bytes with doff {doff}")

    def _check_paused(self) -> list[Event]:
        events: list[Event] = []
        if len(self._pending) > self.settings.paused_bytes_max:
            self._fail(RESOURCE_LIMIT_EXCEEDED, "too much was sent before the SASL outcome", events)
        return events

    # SASL frames

    def _on_sasl_frame(self, frame: memoryview, events: list[Event]) -> None:
        body = decode_sasl_body(frame, 0)
        if isinstance(body, SaslInit):
            self._advance(ConnectionInput.RECEIVE_SASL_INIT)
            if body.mechanism not in self.settings.sasl_mechanisms:
                raise ConnectionFault(
                    UNAUTHORIZED_ACCESS, f"SASL mechanism {body.mechanism!r} was not offered"
                )
            events.append(
                SaslInitReceived(body.mechanism, body.initial_response or b"", body.hostname)
            )
        elif isinstance(body, SaslMechanisms):
            self._advance(ConnectionInput.RECEIVE_SASL_MECHANISMS)
            self._outbox.prelude.append(choose_mechanism(self.settings, body))
        elif isinstance(body, SaslOutcome):
            self._advance(ConnectionInput.RECEIVE_SASL_OUTCOME)
            check_outcome(body)
            self._advance(ConnectionInput.SEND_AMQP_HEADER)
            self._outbox.prelude.append(AMQP_HEADER)
        else:
            raise ConnectionFault(FRAMING_ERROR, f"an unexpected {type(body).__name__}")

    # AMQP frames

    def _on_frame(self, channel: int, frame: memoryview, events: list[Event]) -> None:
        body, end = decode_performative(frame, 0)
        if isinstance(body, Open):
            self._on_open(body, events)
        elif isinstance(body, Close):
            self._advance(ConnectionInput.RECEIVE_CLOSE)
            self._channels.drop_all()
            events.append(CloseReceived(body.error))
        else:
            self._advance(ConnectionInput.RECEIVE_FRAME)
            if self._is_answerable:
                self._channels.take(channel, body, bytes(frame[end:]), events)

    def _on_open(self, peer_open: Open, events: list[Event]) -> None:
        self._advance(ConnectionInput.RECEIVE_OPEN)
        if peer_open.max_frame_size < FRAME_SIZE_MIN_MAX:
            raise ConnectionFault(
                INVALID_FIELD, f"max-frame-size is below {FRAME_SIZE_MIN_MAX}, the least allowed"
            )
        idle_timeout_ms = peer_open.idle_time_out or 0
        if 0 < idle_timeout_ms < PEER_TIMEOUT_MIN_MS:
            raise ConnectionFault(
                NOT_ALLOWED, f"an idle-time-out below {PEER_TIMEOUT_MIN_MS} ms is not supported"
            )
        self._idle.peer_timeout_ms = idle_timeout_ms
        self._outbox.frame_size_max = min(peer_open.max_frame_size, self.settings.frame_size_max)
        self.peer_open = peer_open
        events.append(OpenReceived(peer_open))

    # State

    def _advance(self, happening: ConnectionInput) -> None:
        self._state = next_connection_state(self._state, happening)

    def _can(self, happening: ConnectionInput) -> bool:
        return (self._state, happening) in CONNECTION_TRANSITIONS

    @property
    def _is_answerable(self) -> bool:
        """What the peer sends still matters: we have not closed."""
        return self._can(ConnectionInput.SEND_OPEN) or self._can(ConnectionInput.SEND_CLOSE)

    def _send_first_header(self) -> None:
        if self.settings.sasl_mechanisms:
            self._advance(ConnectionInput.SEND_SASL_HEADER)
            self._outbox.prelude.append(SASL_HEADER)
        else:
            self._advance(ConnectionInput.SEND_AMQP_HEADER)
            self._outbox.prelude.append(AMQP_HEADER)

    def _open_if_due(self) -> None:
        if self._own_open is not None and self._can(ConnectionInput.SEND_OPEN):
            self._advance(ConnectionInput.SEND_OPEN)
            self._outbox.prelude.append(encode_frame(0, self._own_open))
            self._outbox.release()

    def _fail(self, condition: str, description: str, events: list[Event]) -> None:
        """Queue the answer that the peer's error calls for in this state, and be over."""
        if self._is_answerable:
            self.close(AmqpError(condition, description))
        elif self.role is Role.SERVER and self._state in _HEADER_STATES:
            # The header that would have been right is the answer to a wrong one (§2.2).
            self._outbox.prelude.append(AMQP_HEADER)
        elif self.role is Role.SERVER and self._can(ConnectionInput.RECEIVE_SASL_INIT):
            self._outbox.prelude.append(encode_sasl_frame(SaslOutcome(SaslCode.SYS_PERM, b"")))
        elif self._can(ConnectionInput.SEND_SASL_OUTCOME):
            self._outbox.prelude.append(encode_sasl_frame(SaslOutcome(SaslCode.AUTH, b"")))
        self._advance(ConnectionInput.FAIL)
        self._channels.drop_all()
        events.append(ConnectionFailed(condition, description))
