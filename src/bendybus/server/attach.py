"""attach: what a client's link leads to, or why it is refused."""

from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from bendybus.amqp.events import AttachReceived
from bendybus.amqp.session import AmqpLink, LinkRole
from bendybus.amqp.terminus import Coordinator, Source, Target
from bendybus.amqp.values import Symbol, Ulong
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.held_sessions import HeldSession
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.rate_limits import ConnectionRate
from bendybus.broker.receive import (
    ReceiveMode,
    Receiver,
    check_has_messages,
    check_open_for_receive,
    check_status_for_receive,
)
from bendybus.broker.send import check_open_for_send, check_takes_messages
from bendybus.broker.served_queue import ServedQueue, ServedSubQueue
from bendybus.broker.session_receiver import SessionReceiver
from bendybus.broker.sessions import check_sessions
from bendybus.model.actions import RIGHTS_NEEDED, Action, right_for_operation
from bendybus.model.addresses import Address, parse_address
from bendybus.model.errors import (
    ArgumentInvalid,
    BusError,
    Throttled,
    Unauthorized,
)
from bendybus.server.coordinator_link import CoordinatorLink
from bendybus.server.incoming_link import IncomingLink
from bendybus.server.management_node import ManagementNode
from bendybus.server.outgoing_link import OutgoingLink
from bendybus.server.outlet import Outlet
from bendybus.server.request_links import RequestLink
from bendybus.server.requests import Request, ResponseLink
from bendybus.server.session_attach import (
    PendingSession,
    SessionWish,
    granted_properties,
    session_wish,
)
from bendybus.server.token_node import Access, Grants, TokenNode
from bendybus.server.translate import amqp_error
from bendybus.server.via_link import DESTINATION, ViaLink

UNLIMITED: Final = 2**64 - 1
REQUEST_BYTES_MAX: Final = 4 * 1024 * 1024
# Whoever puts a token has proved nothing yet.
TOKEN_REQUEST_BYTES_MAX: Final = 64 * 1024
_SETTLED_BY_SENDER: Final = 1

LinkHandler = (
    IncomingLink | OutgoingLink | PendingSession | RequestLink | ResponseLink | CoordinatorLink
)


@dataclass(frozen=True, slots=True)
class Nodes:
    """What a connection's links can lead to."""

    catalog: Catalog
    clock: Clock
    outlet: Outlet
    grants: Grants
    token_node: TokenNode
    links: MutableMapping[AmqpLink, LinkHandler]
    transactions: OpenTransactions
    # What bounds the connection's requests, if anything does.
    rate: ConnectionRate | None
    # Called for a link that was refused after all.
    release: Callable[[AmqpLink], None]
    # The entities that the link being attached was found to lead to.
    found: list[ServedQueue] = field(default_factory=list)

    def count_request(self) -> None:
        """Raise `Throttled` if the connection asks too much."""
        if self.rate is not None:
            self.rate.check(1)

    def moment(self) -> datetime:
        """Return the present as tokens count it."""
        return datetime.fromtimestamp(self.clock.now() / 1000, UTC)

    def require_send(self, path: str) -> None:
        """Raise `Unauthorized` unless the client may send to the entity of that path."""
        self.grants.require(RIGHTS_NEEDED[Action.SEND], parse_address(path), self.moment())


def attach_link(event: AttachReceived, nodes: Nodes) -> LinkHandler | None:
    """Answer an Attach. Returns what serves the link, or None if it was refused."""
    link = event.link
    try:
        nodes.count_request()
        if link.role is LinkRole.RECEIVER:
            return _attach_sender(event, nodes)
        return _attach_receiver(event, nodes)
    except BusError as error:
        link.refuse(amqp_error(error, nodes.clock.now()))
        return None


def why_closed(handler: LinkHandler, entities: Iterable[ServedQueue]) -> BusError | None:
    """Say why a link that was attached to these entities could not be attached any more."""
    try:
        for queue in entities:
            queue.check_there()
            if isinstance(handler, IncomingLink):
                check_open_for_send(queue)
        if isinstance(handler, OutgoingLink | PendingSession):
            check_status_for_receive(handler.sub_queue)
    except BusError as error:
        return error
    return None


def _attach_sender(event: AttachReceived, nodes: Nodes) -> LinkHandler:
    """The client sends: to a queue, or requests to a node."""
    link, target = event.link, event.attach.target
    if isinstance(target, Coordinator):
        # Clients put no token for it: what joins a transaction is judged by its own link.
        return CoordinatorLink(nodes.outlet, link, nodes.transactions, nodes.clock)
    if not isinstance(target, Target):
        raise ArgumentInvalid("The link has no target.")
    address = parse_address(target.address)
    if address.is_cbs or address.is_management:
        return _attach_requests(link, address, nodes)
    queue = _open_for_send(address, nodes)
    access = Access(RIGHTS_NEEDED[Action.SEND], address)
    destination = (event.attach.properties or {}).get(DESTINATION)
    if destination is None:
        _accept_sender(link, queue)
        sender = IncomingLink(nodes.outlet, link, queue, nodes.clock, access, nodes.transactions)
        sender.rate = nodes.rate
        return sender
    final = parse_address(destination)
    to = _open_for_send(final, nodes)
    _accept_sender(link, to)
    access = Access(RIGHTS_NEEDED[Action.SEND], final, via=address)
    via = ViaLink(nodes.outlet, link, to, nodes.clock, access, nodes.transactions, queue)
    via.rate = nodes.rate
    return via


def _open_for_send(address: Address, nodes: Nodes) -> ServedQueue:
    """Return what an address names, if the client may send there."""
    queue = _queue(address, nodes)
    nodes.grants.require(RIGHTS_NEEDED[Action.SEND], address, nodes.moment())
    check_takes_messages(queue, address.sub_queue)
    check_open_for_send(queue)
    return queue


def _accept_sender(link: AmqpLink, queue: ServedQueue) -> None:
    link.accept_attach(
        max_message_size=queue.message_bytes_max,
        properties={
            Symbol("com.microsoft:max-message-batch-size"): Ulong(queue.message_bytes_max),
        },
    )


def _attach_receiver(event: AttachReceived, nodes: Nodes) -> LinkHandler:
    """The client receives: from a queue, or responses of a node."""
    link, attach = event.link, event.attach
    source = attach.source
    if not isinstance(source, Source):
        raise ArgumentInvalid("The link has no source.")
    address = parse_address(source.address)
    if address.is_cbs or address.is_management:
        if address.is_management:
            _queue(address, nodes)
        link.accept_attach(max_message_size=UNLIMITED, properties={})
        return ResponseLink(link, address, nodes.outlet)
    queue = _queue(address, nodes)
    access = Access(RIGHTS_NEEDED[Action.RECEIVE], address)
    nodes.grants.require(access.right, address, nodes.moment())
    check_has_messages(queue)
    sub_queue = queue.sub_queues[address.sub_queue]
    is_settled = attach.snd_settle_mode == _SETTLED_BY_SENDER
    mode = ReceiveMode.RECEIVE_AND_DELETE if is_settled else ReceiveMode.PEEK_LOCK
    wish = session_wish(attach)
    if wish is not None:
        return _attach_session(link, sub_queue, wish, mode, access, nodes)
    check_open_for_receive(sub_queue)
    sub_queue.receives.begin()
    link.accept_attach(max_message_size=UNLIMITED, properties={})
    receiver = Receiver(sub_queue, mode, nodes.clock)
    return OutgoingLink(nodes.outlet, link, receiver, nodes.clock, access, nodes.transactions)


def _attach_session(
    link: AmqpLink,
    sub_queue: ServedSubQueue,
    wish: SessionWish,
    mode: ReceiveMode,
    access: Access,
    nodes: Nodes,
) -> PendingSession:
    """The client receives from a session: the Attach is answered when there is one for it."""
    check_sessions(sub_queue)
    check_status_for_receive(sub_queue)
    sub_queue.receives.begin()

    def grant(held: HeldSession | None) -> None:
        del nodes.links[link]
        if held is None:
            nodes.release(link)
            return
        link.accept_attach(
            source=wish.granted_source(held.session_id),
            max_message_size=UNLIMITED,
            properties=granted_properties(held),
        )
        receiver = SessionReceiver(sub_queue, held, mode, nodes.clock)
        nodes.links[link] = OutgoingLink(
            nodes.outlet, link, receiver, nodes.clock, access, nodes.transactions
        )

    return PendingSession(nodes.outlet, link, sub_queue, wish, nodes.clock, grant)


def _attach_requests(link: AmqpLink, address: Address, nodes: Nodes) -> RequestLink:
    def candidates() -> list[ResponseLink]:
        return [
            each
            for each in nodes.links.values()
            if isinstance(each, ResponseLink) and each.address.is_same_node(address)
        ]

    if address.is_cbs:

        async def answer(request: Request) -> tuple[dict[object, object], object]:
            return await nodes.token_node.put_token(request, nodes.grants), None

    else:
        queue = _queue(address, nodes)
        sub_queue = queue.sub_queues[address.sub_queue]

        def find_session(session_id: str, link_name: str | None) -> HeldSession | None:
            """Return the session if this connection holds it, by that link if one is named."""
            for each in nodes.links.values():
                if isinstance(each, OutgoingLink) and each.sub_queue is sub_queue:
                    held = each.session
                    if (
                        held is not None
                        and held.session_id == session_id
                        and link_name in (None, each.link.name)
                    ):
                        return held
            return None

        node = ManagementNode(
            sub_queue,
            nodes.catalog,
            nodes.clock,
            nodes.transactions,
            find_session,
            nodes.require_send,
        )

        async def answer(request: Request) -> tuple[dict[object, object], object]:
            right = right_for_operation(request.text("operation") or "")
            try:
                nodes.grants.require(right, address, nodes.moment())
                nodes.count_request()
            except (Unauthorized, Throttled) as error:
                return node.refusal(error)
            return await node.answer(request)

    link.accept_attach(max_message_size=UNLIMITED, properties={})
    link.message_size_max = TOKEN_REQUEST_BYTES_MAX if address.is_cbs else REQUEST_BYTES_MAX
    return RequestLink(nodes.outlet, link, answer, candidates, nodes.clock)


def _queue(address: Address, nodes: Nodes) -> ServedQueue:
    if address.subscription is None:
        queue = nodes.catalog.queue(address.path)
    else:
        queue = nodes.catalog.subscription(address.path, address.subscription)
    nodes.found.append(queue)
    return queue
