"""Sessions and links: the objects that a caller holds and calls.

`AmqpSession` has the windows, the ids and the table of links; `AmqpLink` what a caller does with
one link. They are in one file because neither means anything without the other. Calls here never
wait and never return bytes: frames go to the connection's outbox. What peers send is worked on in
`session_input`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bendybus.amqp.deliveries import UNSETTLED_MAX, Assembly, consecutive_ranges
from bendybus.amqp.faults import CannotSend
from bendybus.amqp.link_state import LINK_TRANSITIONS, LinkInput, LinkState, next_link_state
from bendybus.amqp.performatives import AmqpError, Attach, Begin, Detach, End, Transfer
from bendybus.amqp.serial import DISTANCE_MAX, SERIAL_MASK, serial_distance
from bendybus.amqp.session_state import (
    SESSION_TRANSITIONS,
    SessionInput,
    SessionState,
    next_session_state,
)
from bendybus.amqp.transfer_frames import (
    SETTLED_TAIL,
    TAG_PREFIX,
    TAG_SIZE,
    UNSETTLED_TAIL,
    TransferLayout,
    disposition_frame,
    split_transfer,
    transfer_layout,
)
from bendybus.amqp.window import SessionWindow


class LinkRole(Enum):
    """Which end of a link is ours; the value is the role on the wire."""

    SENDER = False
    RECEIVER = True


class OutgoingDelivery:
    """One delivery that we sent unsettled. `parcel` is the caller's own."""

    __slots__ = ("delivery_id", "link", "parcel", "tag")

    def __init__(self, delivery_id: int, tag: bytes, link: AmqpLink, parcel: object) -> None:
        self.delivery_id = delivery_id
        self.tag = tag
        self.link = link
        self.parcel = parcel

    def __repr__(self) -> str:
        return f"OutgoingDelivery({self.delivery_id:#x}, {self.tag.hex()}, {self.parcel!r})"


@dataclass(slots=True, eq=False)
class AmqpSession:
    """One session: its windows, its delivery ids, its links."""

    window: SessionWindow
    next_delivery_id: int
    state: SessionState = SessionState.UNMAPPED
    has_failed: bool = False
    """We ended it because the peer broke a rule."""
    peer_channel: int | None = None
    unsettled: dict[int, OutgoingDelivery] = field(default_factory=dict)
    """What we sent and the peer has not decided about. Of all links: dispositions name ids."""
    vain_ids: tuple[int, int] = (0, 0)  # the next delivery id, and ids sought in vain since then
    links: dict[int, AmqpLink] = field(default_factory=dict)
    """By our handle."""
    links_by_peer_handle: dict[int, AmqpLink] = field(default_factory=dict)
    ready_receivers: dict[int, AmqpLink] = field(default_factory=dict)
    """By peer handle, the links for which a whole transfer in one frame needs no questions."""
    pending_attaches: dict[tuple[str, LinkRole], AmqpLink] = field(default_factory=dict)
    """Links that we asked for, until the peer answers."""

    @property
    def channel(self) -> int:
        """Our channel."""
        return self.window.channel

    @property
    def room(self) -> int:
        """How many more deliveries may be sent before the peer decides about some."""
        return UNSETTLED_MAX - len(self.unsettled)

    def advance(self, happening: SessionInput) -> None:
        """Take a step of the state table, or raise `IllegalTransition`."""
        self.state = next_session_state(self.state, happening)

    @property
    def is_answerable(self) -> bool:
        """What the peer sends on it still matters: we have not ended it."""
        return (self.state, SessionInput.SEND_END) in SESSION_TRANSITIONS

    def send_begin(self) -> None:
        """Begin, or answer the peer's Begin if there was one."""
        self.advance(SessionInput.SEND_BEGIN)
        settings = self.window.settings
        self.window.emit(
            Begin(
                remote_channel=self.peer_channel,
                next_outgoing_id=self.window.next_outgoing_id,
                incoming_window=settings.incoming_window,
                outgoing_window=settings.outgoing_window,
                handle_max=settings.handle_max,
            )
        )

    def end(self, error: AmqpError | None = None) -> None:
        """End the session and with it all its links; does nothing if it is over already."""
        if not self.is_answerable:
            return
        self.advance(SessionInput.SEND_END)
        self.window.emit(End(error))
        self.drop_links()

    def drop_links(self) -> None:
        """Forget all links and deliveries: the session is over."""
        self.window.outbox.link_count -= len(self.links)
        self.window.outbox.peer_handle_count -= len(self.links_by_peer_handle)
        for link in {*self.links.values(), *self.links_by_peer_handle.values()}:
            link.advance(LinkInput.SESSION_OVER)
            self.window.outbox.drop(link.assembly)
        for table in (self.links, self.links_by_peer_handle, self.ready_receivers):
            table.clear()
        self.pending_attaches.clear()
        self.unsettled.clear()
        self.window.waiting.clear()

    def attach(  # noqa: PLR0913  as many as an Attach has fields that a caller sets
        self,
        name: str,
        role: LinkRole,
        *,
        source: object,
        target: object,
        snd_settle_mode: int = 2,
        rcv_settle_mode: int = 0,
        max_message_size: int | None = None,
        properties: dict[Any, Any] | None = None,
    ) -> AmqpLink:
        """Ask for a link; an `AttachReceived` with the same link is the answer."""
        link = AmqpLink(
            session=self,
            name=name,
            role=role,
            handle=self.free_handle(0),
            message_size_max=self.window.settings.message_size_max,
            snd_settle_mode=snd_settle_mode,
            rcv_settle_mode=rcv_settle_mode,
            was_announced=True,
        )
        self.add_link(link)
        self.pending_attaches[name, role] = link
        link.send_attach(
            source=source, target=target, max_message_size=max_message_size, properties=properties
        )
        return link

    def add_link(self, link: AmqpLink) -> None:
        """Enter a link under our handle."""
        self.links[link.handle] = link
        self.window.outbox.link_count += 1

    def remove_link(self, link: AmqpLink) -> None:
        """Free our handle and forget what was sent on it."""
        assert self.links[link.handle] is link
        del self.links[link.handle]
        self.window.outbox.link_count -= 1
        self.window.drop_waiting(link.handle)
        if link.role is LinkRole.SENDER:
            gone = [key for key, delivery in self.unsettled.items() if delivery.link is link]
            for key in gone:
                del self.unsettled[key]

    def free_handle(self, wanted: int) -> int:
        """Return the wanted handle, or else the next one that is free."""
        while wanted in self.links:
            wanted += 1
        return wanted


@dataclass(slots=True, eq=False, repr=False)
class AmqpLink:
    """One link, seen from our end. Which calls make sense depends on `role`.

    A caller learns late that a link is gone: its answer may have waited for a disk. Calls on a link
    that is no longer open therefore do nothing; only `send` refuses, because a message is at stake.
    """

    session: AmqpSession
    name: str
    role: LinkRole
    handle: int
    message_size_max: int
    """Of deliveries that come in on it."""
    snd_settle_mode: int = 2
    rcv_settle_mode: int = 0
    state: LinkState = LinkState.DETACHED
    is_open: bool = False
    """Attached on both sides."""
    peer_attach: Attach | None = None
    peer_handle: int = -1
    delivery_count: int = 0
    credit_limit: int = 0
    """The delivery-count at which the credit is used up."""
    drain: bool = False
    """As a sender: the peer wants its credit used or given back (`answer_drain`)."""
    assembly: Assembly | None = None
    """As a receiver: the delivery whose last frame has not come yet."""
    takes_runs: bool = False
    """As a receiver: what comes in one run is told as one event (`TransferRunReceived`)."""
    first_delivery_count: int = 0
    was_announced: bool = False
    """The caller knows of it."""
    layout: TransferLayout = field(init=False)

    def __post_init__(self) -> None:
        self.layout = transfer_layout(self.session.channel, self.handle)

    def __repr__(self) -> str:
        return f"AmqpLink({self.name!r}, {self.role.name}, {self.state.name})"

    @property
    def is_answerable(self) -> bool:
        """What the peer sends on it still matters: we have not detached."""
        return self.can(LinkInput.SEND_ATTACH) or self.can(LinkInput.SEND_DETACH)

    @property
    def credit(self) -> int:
        """As a sender: how many deliveries the peer will take; as a receiver: how many it may send.

        Negative when that was exceeded or taken back.
        """
        return serial_distance(self.credit_limit, self.delivery_count)

    def set_credit(self, delivery_count: int, link_credit: int) -> None:
        """Note a grant that was made at a delivery-count."""
        self.credit_limit = (delivery_count + min(link_credit, DISTANCE_MAX)) & SERIAL_MASK

    def advance(self, happening: LinkInput) -> None:
        """Take a step of the state table, or raise `IllegalTransition`."""
        self.state = next_link_state(self.state, happening)
        self.is_open = self.state is LinkState.ATTACHED

    def can(self, happening: LinkInput) -> bool:
        """Tell whether the state table has such a step from here."""
        return (self.state, happening) in LINK_TRANSITIONS

    # Attach and detach

    def accept_attach(
        self,
        *,
        source: object = None,
        target: object = None,
        max_message_size: int | None = None,
        properties: dict[Any, Any] | None = None,
        initial_delivery_count: int = 0,
    ) -> None:
        """Answer the peer's Attach. Source and target are the peer's own unless given."""
        if self.peer_attach is None or not self.can(LinkInput.SEND_ATTACH):
            return
        if self.role is LinkRole.SENDER:
            # Credit that came in front of this answer was counted from zero.
            self.credit_limit = (self.credit_limit + initial_delivery_count) & SERIAL_MASK
            self.delivery_count = self.first_delivery_count = initial_delivery_count
        self.send_attach(
            source=self.peer_attach.source if source is None else source,
            target=self.peer_attach.target if target is None else target,
            max_message_size=max_message_size,
            properties=properties,
        )

    def refuse(self, error: AmqpError) -> None:
        """Answer the peer's Attach with null terminuses and, right behind, a Detach (§2.6.3)."""
        if not self.can(LinkInput.SEND_ATTACH):
            return
        self.send_attach(source=None, target=None)
        self.detach(error)

    def detach(self, error: AmqpError | None = None, *, closed: bool = True) -> None:
        """Detach, or answer the peer's Detach. Does nothing if we have detached already."""
        if not self.can(LinkInput.SEND_DETACH):
            if not self.can(LinkInput.SEND_ATTACH):
                return
            # A Detach for a link of which the peer has no Attach would break the connection.
            self.send_attach(source=None, target=None)
        self.advance(LinkInput.SEND_DETACH)
        session = self.session
        session.window.emit(Detach(handle=self.handle, closed=closed, error=error))
        session.ready_receivers.pop(self.peer_handle, None)
        session.window.outbox.drop(self.assembly)
        self.assembly = None
        session.remove_link(self)

    def send_attach(
        self,
        *,
        source: object,
        target: object,
        max_message_size: int | None = None,
        properties: dict[Any, Any] | None = None,
    ) -> None:
        """Send our Attach, first or second."""
        self.advance(LinkInput.SEND_ATTACH)
        if max_message_size is not None and self.role is LinkRole.RECEIVER:
            self.message_size_max = max_message_size
        is_sender = self.role is LinkRole.SENDER
        self.session.window.emit(
            Attach(
                name=self.name,
                handle=self.handle,
                role=self.role.value,
                snd_settle_mode=self.snd_settle_mode,
                rcv_settle_mode=self.rcv_settle_mode,
                source=source,
                target=target,
                initial_delivery_count=self.delivery_count if is_sender else None,
                max_message_size=max_message_size,
                properties=properties,
            )
        )

    # As a receiver

    def grant(self, credit: int, *, drain: bool = False) -> None:
        """Let the peer send `credit` deliveries from now on, in place of what it had."""
        if not self.is_open:
            return
        self.set_credit(self.delivery_count, credit)
        self.send_link_flow(drain=drain)

    def settle(self, first_id: int, last_id: int, state: object, *, settled: bool = True) -> None:
        """Tell the peer the state of deliveries that it sent."""
        if self.is_open:
            self.session.window.settle_received(first_id, last_id, state, settled=settled)

    def accept(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Tell the peer that we have, for good, what it sent in ranges of deliveries."""
        if self.is_open:
            self.session.window.accept_received(ranges)

    # As a sender

    def sendable(self) -> int:
        """Return how many deliveries of one frame each may be sent now."""
        window = self.session.window
        if not self.is_open or window.waiting:
            return 0
        return max(0, min(self.credit, window.remote_incoming_window, self.session.room))

    def send(
        self,
        payload: bytes,
        tag: bytes,
        *,
        settled: bool,
        parcel: object = None,
        message_format: int = 0,
        state: object = None,
    ) -> OutgoingDelivery | None:
        """Send one delivery; return it unless it is settled. Raises `CannotSend`.

        Needs `sendable() > 0`. A large message may have more frames than the window lets through;
        the rest waits here, and nothing more can be sent on the session until it is gone.
        """
        session = self.session
        window = session.window
        delivery_count = self.delivery_count
        frames_left = window.remote_incoming_window
        # Written out instead of calling `sendable`: this runs once for every message.
        credit = (self.credit_limit - delivery_count) & SERIAL_MASK
        if not (0 < credit <= DISTANCE_MAX and frames_left > 0 and self.is_open) or window.waiting:
            raise CannotSend(f"{self!r} has no credit, no window or is not open")
        delivery_id = session.next_delivery_id
        session.next_delivery_id = (delivery_id + 1) & SERIAL_MASK
        self.delivery_count = (delivery_count + 1) & SERIAL_MASK
        pack, start, overhead = self.layout
        size = overhead + len(payload)
        outbox = window.outbox
        if (
            len(tag) == TAG_SIZE
            and message_format == 0
            and state is None
            and size <= outbox.frame_size_max
        ):
            tail = SETTLED_TAIL if settled else UNSETTLED_TAIL
            outbox.frames += (pack(size, start, delivery_id, TAG_PREFIX, tag, tail), payload)
            window.next_outgoing_id = (window.next_outgoing_id + 1) & SERIAL_MASK
            window.remote_incoming_window = frames_left - 1
        else:
            transfer = Transfer(
                handle=self.handle,
                delivery_id=delivery_id,
                delivery_tag=tag,
                message_format=message_format,
                settled=settled,
                state=state,
                batchable=True,
            )
            for frame in split_transfer(window.channel, transfer, payload, outbox.frame_size_max):
                window.put_transfer(self.handle, frame)
        if settled:
            return None
        delivery = OutgoingDelivery(delivery_id, tag, self, parcel)
        session.unsettled[delivery_id] = delivery
        return delivery

    def send_many(self, deliveries: Sequence[tuple[bytes, bytes, object]], *, settled: bool) -> int:
        """Send payloads with their tags and parcels, as far as it goes; return how many were sent.

        The same as `send` for each, but what does not change between them is looked up once.
        """
        session = self.session
        window = session.window
        outbox = window.outbox
        unsettled = session.unsettled
        pack, start, overhead = self.layout
        payload_size_max = outbox.frame_size_max - overhead
        tail = SETTLED_TAIL if settled else UNSETTLED_TAIL
        room = self.sendable()
        for done, (payload, tag, parcel) in enumerate(deliveries):
            size = len(payload)
            if done >= room or size > payload_size_max or len(tag) != TAG_SIZE:
                return done + self._send_each(deliveries[done:], settled=settled)
            delivery_id = session.next_delivery_id
            outbox.frames += (
                pack(overhead + size, start, delivery_id, TAG_PREFIX, tag, tail),
                payload,
            )
            if not settled:
                unsettled[delivery_id] = OutgoingDelivery(delivery_id, tag, self, parcel)
            session.next_delivery_id = (delivery_id + 1) & SERIAL_MASK
            self.delivery_count = (self.delivery_count + 1) & SERIAL_MASK
            window.next_outgoing_id = (window.next_outgoing_id + 1) & SERIAL_MASK
            window.remote_incoming_window -= 1
        return len(deliveries)

    def _send_each(
        self, deliveries: Sequence[tuple[bytes, bytes, object]], *, settled: bool
    ) -> int:
        """Send one by one until there is no credit or window; return how many were sent."""
        for done, (payload, tag, parcel) in enumerate(deliveries):
            if self.sendable() == 0:
                return done
            self.send(payload, tag, settled=settled, parcel=parcel)
        return len(deliveries)

    def settle_sent(self, deliveries: Iterable[OutgoingDelivery], state: object) -> None:
        """Settle deliveries that we sent and forget them; one frame for each run of ids."""
        window, unsettled = self.session.window, self.session.unsettled
        ids = [delivery.delivery_id for delivery in deliveries]
        for delivery_id in ids:
            unsettled.pop(delivery_id, None)
        if not self.is_open:
            return
        for first, last in consecutive_ranges(ids):
            window.outbox.frames.append(
                disposition_frame(
                    window.channel,
                    receiver=False,
                    first=first,
                    last=last,
                    state=state,
                    settled=True,
                )
            )

    def answer_drain(self) -> None:
        """Give unused credit back (§2.6.7); also due when there was none to give."""
        if not self.is_open:
            return
        self.delivery_count = (self.delivery_count + max(0, self.credit)) & SERIAL_MASK
        self.credit_limit = self.delivery_count
        self.drain = False
        self.send_link_flow(drain=True)

    def send_link_flow(self, *, drain: bool = False) -> None:
        """Send a Flow with this link's state as it is."""
        self.session.window.send_flow(
            handle=self.handle,
            delivery_count=self.delivery_count,
            link_credit=max(0, self.credit),
            available=0 if self.role is LinkRole.SENDER else None,
            drain=drain,
        )
