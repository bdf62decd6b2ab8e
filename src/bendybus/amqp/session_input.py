"""What a peer's frames do to a session and its links: one function per performative.

Each changes the state, appends to `events` what the caller must know, and raises a fault when the
peer broke a rule. Nothing here is asked for the frames of the hot path in `connection`.
"""

from __future__ import annotations

from typing import Final

from bendybus.amqp.conditions import (
    FRAMING_ERROR,
    HANDLE_IN_USE,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
)
from bendybus.amqp.deliveries import Assembly, take_range
from bendybus.amqp.events import (
    AttachReceived,
    DetachReceived,
    DispositionReceived,
    Event,
    FlowReceived,
    OversizedTransferReceived,
    SenderDispositionReceived,
    SessionFlowReceived,
    TransferReceived,
)
from bendybus.amqp.faults import ConnectionFault, SessionFault
from bendybus.amqp.link_state import LinkInput
from bendybus.amqp.outcomes import is_final
from bendybus.amqp.performatives import (
    AmqpError,
    Attach,
    Detach,
    Disposition,
    Flow,
    Transfer,
)
from bendybus.amqp.serial import SERIAL_MASK
from bendybus.amqp.session import AmqpLink, AmqpSession, LinkRole

# Ids that a peer may look for in vain before the next delivery that it is sent.
VAIN_IDS_MAX: Final = 1_000_000


def take_attach(session: AmqpSession, attach: Attach, events: list[Event]) -> None:
    """Make a link, or complete the one that we asked for (§2.6.3)."""
    settings = session.window.settings
    if attach.handle > settings.handle_max:
        raise ConnectionFault(
            FRAMING_ERROR, f"handle {attach.handle} is above handle-max {settings.handle_max}"
        )
    if attach.handle in session.links_by_peer_handle:
        raise SessionFault(HANDLE_IN_USE, f"handle {attach.handle} is attached already")
    _count_peer_handle(session)
    role = LinkRole(not attach.role)
    link = session.pending_attaches.pop((attach.name, role), None)
    is_ours = link is not None
    if link is None:
        link = _new_link(session, attach, role)
    link.peer_attach = attach
    link.peer_handle = attach.handle
    session.links_by_peer_handle[attach.handle] = link
    link.advance(LinkInput.RECEIVE_ATTACH)
    if role is LinkRole.RECEIVER:
        link.delivery_count = attach.initial_delivery_count or 0
        link.credit_limit = (link.delivery_count + link.credit_limit) & SERIAL_MASK
    if not is_ours and session.window.outbox.link_count > settings.link_count_max:
        text = f"a connection has at most {settings.link_count_max} links"
        link.refuse(AmqpError(RESOURCE_LIMIT_EXCEEDED, text))
        return
    link.was_announced = True
    _note_readiness(link)
    events.append(AttachReceived(link, attach))


def _count_peer_handle(session: AmqpSession) -> None:
    """Count a handle that the peer holds; one refused stays held until the peer detaches it, too.

    So a peer that never answers refusals would grow without end: it loses the connection.
    """
    outbox = session.window.outbox
    outbox.peer_handle_count += 1
    if outbox.peer_handle_count > 2 * session.window.settings.link_count_max:
        raise ConnectionFault(RESOURCE_LIMIT_EXCEEDED, "too many links, and refusals unanswered")


def _new_link(session: AmqpSession, attach: Attach, role: LinkRole) -> AmqpLink:
    link = AmqpLink(
        session=session,
        name=attach.name,
        role=role,
        handle=session.free_handle(attach.handle),
        message_size_max=session.window.settings.message_size_max,
        snd_settle_mode=attach.snd_settle_mode,
        rcv_settle_mode=attach.rcv_settle_mode,
    )
    session.add_link(link)
    return link


def _note_readiness(link: AmqpLink) -> None:
    """Let the hot path have the link while nothing about it needs a second look."""
    ready = link.session.ready_receivers
    is_plain = link.role is LinkRole.RECEIVER and link.assembly is None
    if is_plain and link.is_answerable and link.can(LinkInput.RECEIVE_FRAME):
        ready[link.peer_handle] = link
    else:
        ready.pop(link.peer_handle, None)


def _attached(session: AmqpSession, handle: int) -> AmqpLink:
    link = session.links_by_peer_handle.get(handle)
    if link is None:
        raise SessionFault(UNATTACHED_HANDLE, f"handle {handle} is not attached")
    return link


def take_detach(session: AmqpSession, detach: Detach, events: list[Event]) -> None:
    """Free the peer's handle; our own is freed by our Detach."""
    link = _attached(session, detach.handle)
    link.advance(LinkInput.RECEIVE_DETACH)
    del session.links_by_peer_handle[detach.handle]
    session.window.outbox.peer_handle_count -= 1
    session.window.outbox.drop(link.assembly)
    link.assembly = None
    _note_readiness(link)
    if link.was_announced:
        events.append(DetachReceived(link, detach.closed, detach.error))


def take_flow(session: AmqpSession, flow: Flow, events: list[Event]) -> None:
    """Note windows and credit; answer an echo (§2.7.4)."""
    link = None if flow.handle is None else _attached(session, flow.handle)
    was_closed = session.window.remote_incoming_window <= 0
    session.window.peer_flows(flow)
    if link is None or was_closed:
        # A window that opens is for every link, whichever one the Flow is about.
        events.append(SessionFlowReceived(session))
    if link is None:
        if flow.echo:
            session.window.send_flow()
        return
    link.advance(LinkInput.RECEIVE_FRAME)
    if link.role is LinkRole.SENDER:
        _take_credit(link, flow)
    elif flow.delivery_count is not None:
        # The sender's count rules (§2.6.7): after a drain it has jumped over the credit given back.
        link.delivery_count = flow.delivery_count
    if link.is_answerable:
        events.append(FlowReceived(link))
    # A drain is answered by `answer_drain`; an echo now would look like that answer to rhea.
    if flow.echo and link.is_open and not link.drain:
        link.send_link_flow()


def _take_credit(link: AmqpLink, flow: Flow) -> None:
    # A receiver that has not seen our Attach leaves the count out; it means our first one.
    count = link.first_delivery_count if flow.delivery_count is None else flow.delivery_count
    if flow.link_credit is not None:
        link.set_credit(count, flow.link_credit)
    link.drain = flow.drain


def take_transfer(
    session: AmqpSession, transfer: Transfer, payload: bytes, events: list[Event]
) -> None:
    """Take one frame of a delivery; the last one makes the event (§2.6.14)."""
    link = _attached(session, transfer.handle)
    session.window.count_incoming()
    link.advance(LinkInput.RECEIVE_FRAME)
    if not link.is_answerable:
        return
    if link.role is LinkRole.SENDER:
        raise SessionFault(NOT_ALLOWED, f"a transfer came on handle {transfer.handle} to a sender")
    assembly = link.assembly or _begin_delivery(transfer)
    if transfer.delivery_id not in (None, assembly.delivery_id):
        raise SessionFault(
            INVALID_FIELD,
            f"delivery {transfer.delivery_id} began before {assembly.delivery_id} was complete",
        )
    assembly.settled = assembly.settled or bool(transfer.settled)
    if transfer.state is not None:
        assembly.state = transfer.state
    outbox = session.window.outbox
    link.assembly = assembly
    if not (transfer.aborted or outbox.keep(assembly, payload, link.message_size_max)):
        raise SessionFault(
            RESOURCE_LIMIT_EXCEEDED,
            f"{outbox.unfinished_bytes} bytes are there of deliveries that are not complete",
        )
    is_whole = transfer.aborted or not transfer.more
    if is_whole:
        outbox.drop(assembly)
        link.assembly = None
    _note_readiness(link)
    if is_whole:
        link.delivery_count = (link.delivery_count + 1) & SERIAL_MASK
    if is_whole and not transfer.aborted:
        events.append(_whole(link, assembly))


def _begin_delivery(transfer: Transfer) -> Assembly:
    if transfer.delivery_id is None:
        raise SessionFault(INVALID_FIELD, "the first transfer of a delivery has no delivery-id")
    return Assembly(
        transfer.delivery_id, transfer.delivery_tag or b"", transfer.message_format or 0
    )


def _whole(link: AmqpLink, assembly: Assembly) -> TransferReceived | OversizedTransferReceived:
    if assembly.size > link.message_size_max:
        return OversizedTransferReceived(
            link,
            assembly.delivery_id,
            assembly.tag,
            assembly.settled,
            assembly.state,
            assembly.size,
        )
    return TransferReceived(
        link,
        assembly.delivery_id,
        assembly.tag,
        assembly.message_format,
        assembly.settled,
        assembly.state,
        bytes(assembly.payload),
    )


def take_disposition(session: AmqpSession, disposition: Disposition, events: list[Event]) -> None:
    """Resolve a range of ids to the deliveries that we sent, or pass on a sender's word."""
    first = disposition.first
    last = first if disposition.last is None else disposition.last
    if disposition.role:
        state, settled = disposition.state, disposition.settled
        if not (settled or is_final(state)):
            return
        if not settle_range(session, first, last, state=state, settled=settled, events=events):
            _count_vain(session, first, last)
    else:
        events.append(
            SenderDispositionReceived(session, first, last, disposition.state, disposition.settled)
        )


def settle_range(
    session: AmqpSession,
    first: int,
    last: int,
    *,
    state: object,
    settled: bool,
    events: list[Event],
) -> bool:
    """Append one event per link and run; what is alike and adjacent joins the event before it.

    A client that settles a thousand messages one by one makes one event, not a thousand. What was
    said of a delivery is final (§3.4), so it is told once: a peer that says it again and again, of
    all that it was ever sent, must not cost us more than once. False if none of them is there.
    """
    was_full = session.room <= 0
    deliveries = take_range(session.unsettled, first, last)
    for delivery in deliveries:
        latest = events[-1] if events else None
        if (
            type(latest) is DispositionReceived
            and latest.link is delivery.link
            and latest.settled is settled
            and (latest.state is state or latest.state == state)
        ):
            latest.deliveries.append(delivery)
        else:
            events.append(DispositionReceived(delivery.link, [delivery], state, settled))
    if was_full and deliveries:
        # Whatever stood still for want of room goes on, whichever link made it.
        events.append(SessionFlowReceived(session))
    return bool(deliveries)


def _count_vain(session: AmqpSession, first: int, last: int) -> None:
    """Put up with ids that are not there, which crossed our own settlement; but not for ever."""
    since, count = session.vain_ids
    if since != session.next_delivery_id:
        count = 0
    count += min((last - first) & SERIAL_MASK, len(session.unsettled))
    session.vain_ids = (session.next_delivery_id, count)
    if count > VAIN_IDS_MAX:
        raise SessionFault(
            RESOURCE_LIMIT_EXCEEDED,
            f"dispositions named more than {VAIN_IDS_MAX} ids that are not there",
        )
