"""The windows of one session, both ways, counted in transfer frames (AMQP 1.0 §2.5.6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bendybus.amqp.connection_settings import ConnectionSettings
from bendybus.amqp.frames import encode_frame
from bendybus.amqp.outbox import Outbox
from bendybus.amqp.performatives import Flow, Performative
from bendybus.amqp.serial import DISTANCE_MAX, SERIAL_MASK, serial_distance
from bendybus.amqp.transfer_frames import acceptance_frames, disposition_frame

FIRST_OUTGOING_ID: Final = 1


@dataclass(slots=True, eq=False)
class SessionWindow:
    """What may go out on a session now, and what the peer was told it may send."""

    channel: int
    settings: ConnectionSettings
    outbox: Outbox

    next_incoming_id: int | None = None
    """None until the peer's Begin."""
    incoming_edge: int = 0
    """The first id beyond what we let the peer send."""
    top_up_id: int = -1
    """When this id is reached the peer's window is opened again."""

    next_outgoing_id: int = FIRST_OUTGOING_ID
    remote_incoming_window: int = 0
    waiting: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Frames, with our handle, of deliveries begun that the peer's window does not let out yet."""

    def emit(self, body: Performative) -> None:
        """Put one frame that no window governs into the outbox."""
        self.outbox.frames.append(encode_frame(self.channel, body))

    def settle_received(self, first: int, last: int, state: object, *, settled: bool) -> None:
        """Say what became of deliveries that we received."""
        frame = disposition_frame(
            self.channel, receiver=True, first=first, last=last, state=state, settled=settled
        )
        self.outbox.frames.append(frame)

    def accept_received(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Say of ranges of deliveries that we received that we have them for good."""
        self.outbox.frames += acceptance_frames(self.channel, ranges)

    def put_transfer(self, handle: int, frame: bytes) -> None:
        """Put one transfer frame out, or let it wait for the peer's window."""
        if self.waiting or self.remote_incoming_window <= 0:
            self.waiting.append((handle, frame))
        else:
            self._put_out(frame)

    def _put_out(self, frame: bytes) -> None:
        self.outbox.frames.append(frame)
        self.next_outgoing_id = (self.next_outgoing_id + 1) & SERIAL_MASK
        self.remote_incoming_window -= 1

    def peer_begins(self, next_outgoing_id: int, incoming_window: int) -> None:
        """Note the windows of the peer's Begin."""
        self.remote_incoming_window = incoming_window
        self.open_incoming(next_outgoing_id)

    def peer_flows(self, flow: Flow) -> None:
        """Note the peer's windows and send what they let through (§2.5.6)."""
        # A peer that has not seen our Begin yet cannot know our ids; then it means the first one.
        next_id = FIRST_OUTGOING_ID if flow.next_incoming_id is None else flow.next_incoming_id
        window = min(flow.incoming_window, DISTANCE_MAX)
        edge = (next_id + window) & SERIAL_MASK
        self.remote_incoming_window = max(0, serial_distance(edge, self.next_outgoing_id))
        while self.waiting and self.remote_incoming_window > 0:
            self._put_out(self.waiting.popleft()[1])
        self.next_incoming_id = flow.next_outgoing_id
        if serial_distance(self.top_up_id, flow.next_outgoing_id) <= 0:
            self.top_up()

    def drop_waiting(self, handle: int) -> None:
        """Forget the unsent frames of a link that is gone."""
        if self.waiting:
            self.waiting = deque(entry for entry in self.waiting if entry[0] != handle)

    def open_incoming(self, next_incoming_id: int) -> None:
        """Let the peer send a full window from here on, and note when to say so again."""
        window = self.settings.incoming_window
        self.next_incoming_id = next_incoming_id
        self.incoming_edge = (next_incoming_id + window) & SERIAL_MASK
        self.top_up_id = (next_incoming_id + max(1, window // 2)) & SERIAL_MASK

    def count_incoming(self) -> None:
        """Count one transfer frame that came."""
        assert self.next_incoming_id is not None
        self.next_incoming_id = (self.next_incoming_id + 1) & SERIAL_MASK
        if self.next_incoming_id == self.top_up_id:
            self.top_up()

    def top_up(self) -> None:
        """Tell the peer that its whole window is open again.

        Frames beyond the window are not refused (pyamqp counts deliveries instead of frames), so
        the window is a courtesy; what bounds memory is that the caller stops reading.
        """
        assert self.next_incoming_id is not None
        self.open_incoming(self.next_incoming_id)
        self.send_flow()

    def send_flow(
        self,
        *,
        handle: int | None = None,
        delivery_count: int | None = None,
        link_credit: int | None = None,
        available: int | None = None,
        drain: bool = False,
    ) -> None:
        """Send a Flow with all session fields (§2.7.4); rhea cannot do without them."""
        next_incoming_id = self.next_incoming_id
        left = self.settings.incoming_window
        if next_incoming_id is not None:
            left = max(0, serial_distance(self.incoming_edge, next_incoming_id))
        self.emit(
            Flow(
                next_incoming_id=next_incoming_id,
                incoming_window=left,
                next_outgoing_id=self.next_outgoing_id,
                outgoing_window=self.settings.outgoing_window,
                handle=handle,
                delivery_count=delivery_count,
                link_credit=link_credit,
                available=available,
                drain=drain,
            )
        )
