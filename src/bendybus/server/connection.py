"""One client's connection: bytes in, events out to its links, and nothing decided here."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from bendybus.amqp.conditions import CONNECTION_FORCED, UNAUTHORIZED_ACCESS
from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings
from bendybus.amqp.events import (
    AttachReceived,
    CloseReceived,
    ConnectionFailed,
    DetachReceived,
    DispositionReceived,
    EndReceived,
    Event,
    FlowReceived,
    OpenReceived,
    OversizedTransferReceived,
    SaslInitReceived,
    SessionFailed,
    SessionFlowReceived,
    TransferReceived,
    TransferRunReceived,
)
from bendybus.amqp.outbox import UNFINISHED_BYTES_MAX
from bendybus.amqp.outcomes import AmqpError
from bendybus.amqp.session import AmqpLink, AmqpSession
from bendybus.broker.clock import Clock
from bendybus.broker.hosts import Hosts
from bendybus.broker.open_transactions import OpenTransactions
from bendybus.broker.receives import Receives
from bendybus.broker.served_queue import ServedQueue
from bendybus.doors.tls import server_name
from bendybus.model.errors import (
    BusError,
    SessionLockLost,
)
from bendybus.model.ids import Instant
from bendybus.model.transaction import TransactionLimits
from bendybus.server.attach import LinkHandler, Nodes, attach_link, why_closed
from bendybus.server.coordinator_link import CoordinatorLink
from bendybus.server.incoming_link import IncomingLink
from bendybus.server.outgoing_link import OutgoingLink
from bendybus.server.outlet import Outlet
from bendybus.server.request_links import RequestLink
from bendybus.server.requests import ResponseLink
from bendybus.server.session_attach import PendingSession
from bendybus.server.translate import amqp_error
from bendybus.server.visitor import Visitor

# A client that has proved nothing by then is not going to.
UNPROVEN_SECONDS_MAX: Final = 20
# What is kept of its deliveries that are not complete, on all links: it has tokens to put.
UNPROVEN_UNFINISHED_BYTES_MAX: Final = 256 * 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """What every connection of a server shares."""

    hosts: Hosts
    clock: Clock
    settings: ConnectionSettings
    transaction_limits: TransactionLimits


class ClientConnection(asyncio.Protocol):
    """Feeds the engine with what comes, and its events to the links."""

    def __init__(self, service: Service, connections: "set[ClientConnection]") -> None:
        self._service = service
        self._connections = connections
        self._amqp = AmqpConnection(service.settings)
        self._amqp.unfinished_bytes_max = UNPROVEN_UNFINISHED_BYTES_MAX
        self.visitor = Visitor(service.hosts, service.clock)
        self._transactions = OpenTransactions(service.transaction_limits, service.clock)
        self._links: dict[AmqpLink, LinkHandler] = {}
        # The entities that links lead to, so that those know whether they are used.
        self._used: dict[AmqpLink, list[ServedQueue]] = {}
        self._receiving: dict[AmqpLink, Receives] = {}
        self._outlet: Outlet | None = None
        self._opened_at = service.clock.now()
        # Ends with the connection, and all that was begun for it.
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # What the transport says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        # uvloop's transports have the methods without being of the class.
        self._outlet = Outlet(self._amqp, cast("asyncio.Transport", transport))
        peer = transport.get_extra_info("peername")
        self.visitor.address = str(peer[0]) if peer else ""
        self.visitor.login_host = server_name(transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Read, and let every link that got something work."""
        self._handle(self._amqp.receive_data(data))
        self._flush()

    def pause_writing(self) -> None:
        """The client does not read: hand out no more messages."""
        self.outlet.block()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.outlet.unblock()
        for handler in self._links.values():
            if isinstance(handler, OutgoingLink):
                handler.wake()

    def connection_lost(self, error: Exception | None) -> None:
        """Give back at once what the client had cached (R3.2); locks it was handed stay."""
        del error
        self._connections.discard(self)
        self.outlet.unblock()
        for link in list(self._links):
            self._drop_link(link)
        self.outlet.spawn(self._end())

    async def _end(self) -> None:
        """Be over when all that was begun is done: what the client held is free then."""
        await self.outlet.finished()
        self.ended.set_result(None)

    @property
    def link_count(self) -> int:
        """How many links the client has."""
        return len(self._links)

    @property
    def is_blocked(self) -> bool:
        """Whether the client does not read what it is sent."""
        return self._outlet is not None and self._outlet.is_blocked

    @property
    def outlet(self) -> Outlet:
        """The way out; there is one from the first byte on."""
        assert self._outlet is not None
        return self._outlet

    # What the server says

    def tick(self, now_ms: int) -> None:
        """Heartbeat, time-outs, tokens and sessions that ended."""
        self._handle(self._amqp.tick(now_ms))
        self._transactions.end_overdue()
        if self.visitor.grants.is_empty and now_ms - self._opened_at > UNPROVEN_SECONDS_MAX * 1000:
            text = f"No token was put within {UNPROVEN_SECONDS_MAX} seconds."
            self._turn_away(AmqpError(UNAUTHORIZED_ACCESS, text, {}))
        else:
            self._detach_unauthorized(now_ms)
            self._detach_lapsed_sessions(Instant(now_ms))
        self._flush()

    def _reconsider(self) -> None:
        """Look again at the links: an entity of theirs has changed or is gone."""
        self._detach_closed()
        self.outlet.flush_soon()

    def shut_down(self) -> None:
        """Tell the client that the broker stops; it will come back."""
        self._amqp.close(AmqpError(CONNECTION_FORCED, "The broker is stopping.", {}))
        self._flush()

    # Events

    def _handle(self, events: list[Event]) -> None:
        links = self._links
        busy: dict[LinkHandler, None] = {}
        for event in events:
            if type(event) is TransferRunReceived:
                handler = links.get(event.link)
                if isinstance(handler, IncomingLink):
                    handler.take_run(event)
                    busy[handler] = None
            elif type(event) is TransferReceived:
                handler = links.get(event.link)
                if isinstance(handler, IncomingLink | RequestLink | CoordinatorLink):
                    handler.take(event)
                    busy[handler] = None
            elif type(event) is DispositionReceived:
                handler = links.get(event.link)
                if isinstance(handler, OutgoingLink):
                    handler.take(event)
                    busy[handler] = None
                elif isinstance(handler, ResponseLink) and not event.settled:
                    handler.confirm(event.deliveries)
            elif type(event) is FlowReceived:
                self._look_again(links.get(event.link))
            else:
                # What came before must be under way before a link or session goes.
                self._work(busy)
                self._handle_rare(event)
        self._work(busy)

    @staticmethod
    def _work(busy: "dict[LinkHandler, None]") -> None:
        for handler in busy:
            if isinstance(handler, IncomingLink | OutgoingLink | RequestLink):
                handler.work()
        busy.clear()

    def _handle_rare(self, event: Event) -> None:
        """Handle what concerns the connection, a session, or the life of a link."""
        match event:
            case SaslInitReceived():
                self._log_in(event)
            case OpenReceived():
                self._open(event)
            case CloseReceived():
                self._amqp.close()
            case ConnectionFailed():
                about = {"client": self.visitor.address, "code": str(event.condition)}
                _log.info(
                    "connection closed: %s %s", event.condition, event.description, extra=about
                )
            case SessionFlowReceived():
                self._look_again_in(event.session)
            case EndReceived() | SessionFailed():
                self._drop_session(event.session)
            case _:
                self._handle_link(event)

    def _handle_link(self, event: Event) -> None:
        match event:
            case AttachReceived():
                self._attach(event)
            case DetachReceived():
                self._detach(event)
            case OversizedTransferReceived():
                handler = self._links.get(event.link)
                if isinstance(handler, IncomingLink | CoordinatorLink):
                    handler.refuse_oversized(event)
            case _:
                # A session that began, or our outcome that arrived: nothing to do.
                pass

    def _open(self, event: OpenReceived) -> None:
        """Answer the Open, and find the namespace that it is for."""
        self._amqp.open()
        try:
            self.visitor.enter(event.open.hostname, self._connections)
        except BusError as error:
            self._turn_away(amqp_error(error, self._service.clock.now()))

    def _turn_away(self, error: AmqpError) -> None:
        """Say why, and do not wait for an answer: who is not wanted may never give one."""
        self._amqp.close(error)
        self._flush()
        self.outlet.transport.close()

    def _log_in(self, event: SaslInitReceived) -> None:
        visitor = self.visitor
        visitor.login_host = event.hostname or visitor.login_host
        if event.mechanism == "PLAIN":
            self.outlet.spawn(self._log_in_by_key(event))
        else:
            self._handle(self._amqp.sasl_outcome(True))

    async def _log_in_by_key(self, event: SaslInitReceived) -> None:
        """Answer the client, which waits."""
        is_good = await self.visitor.log_in(event.response)
        if self._amqp.is_over or self.outlet.transport.is_closing():
            return
        self._handle(self._amqp.sasl_outcome(is_good))
        self._flush()

    def _attach(self, event: AttachReceived) -> None:
        service, visitor = self._service, self.visitor
        nodes = Nodes(
            visitor.namespace.catalog,
            service.clock,
            self.outlet,
            visitor.grants,
            visitor.token_node(),
            self._links,
            self._transactions,
            visitor.rate,
            self._release,
        )
        handler = attach_link(event, nodes)
        if not visitor.grants.is_empty:
            self._amqp.unfinished_bytes_max = UNFINISHED_BYTES_MAX
        if handler is not None:
            self._links[event.link] = handler
            self._used[event.link] = nodes.found
            if isinstance(handler, OutgoingLink | PendingSession):
                self._receiving[event.link] = handler.sub_queue.receives
            for queue in nodes.found:
                queue.note_link(self._reconsider)
            if isinstance(handler, IncomingLink | RequestLink | CoordinatorLink):
                handler.open()

    def _detach(self, event: DetachReceived) -> None:
        handler = self._links.get(event.link)
        if isinstance(handler, OutgoingLink) and handler.session is not None:
            self._forget_link(event.link)
            self._end_session_link(event.link, handler, closed=event.closed)
        else:
            self._drop_link(event.link)
            event.link.detach(closed=event.closed)

    def _end_session_link(
        self,
        link: AmqpLink,
        handler: OutgoingLink,
        error: AmqpError | None = None,
        *,
        closed: bool = True,
    ) -> None:
        """Detach when the session is free, and all that the client has said of it is answered.

        It may ask for the session again at once; and of what it has said it would hear nothing
        more.
        """

        async def end() -> None:
            await handler.close()
            # What came since then. Whatever comes now is for a link that is not there.
            await handler.settled()
            self._forget_link(link)
            link.detach(error, closed=closed)
            self.outlet.flush_soon()

        if not handler.is_ending:
            handler.is_ending = True
            self.outlet.spawn(end())

    def _look_again(self, handler: LinkHandler | None) -> None:
        if isinstance(handler, OutgoingLink):
            handler.wake()
        elif isinstance(handler, ResponseLink):
            handler.pump()

    def _look_again_in(self, session: AmqpSession) -> None:
        for link, handler in self._links.items():
            if link.session is session:
                self._look_again(handler)

    def _drop_session(self, session: AmqpSession) -> None:
        for link in [each for each in self._links if each.session is session]:
            self._drop_link(link)

    def _drop_link(self, link: AmqpLink) -> None:
        handler = self._forget_link(link)
        if isinstance(handler, OutgoingLink):
            self.outlet.spawn(handler.close())
        elif isinstance(handler, CoordinatorLink | ResponseLink):
            handler.close()
        elif isinstance(handler, PendingSession):
            handler.cancel()

    def _forget_link(self, link: AmqpLink) -> LinkHandler | None:
        """Let a link go, and use its entities no longer."""
        self._release(link)
        return self._links.pop(link, None)

    def _release(self, link: AmqpLink) -> None:
        """Use the entities of a link no longer."""
        receives = self._receiving.pop(link, None)
        if receives is not None:
            receives.end()
        for queue in self._used.pop(link, ()):
            queue.note_link_gone(self._reconsider)

    def _detach_unauthorized(self, now_ms: int) -> None:
        """Detach links whose token has ended and was not renewed."""
        moment = datetime.fromtimestamp(now_ms / 1000, UTC)
        for link, handler in list(self._links.items()):
            if isinstance(handler, IncomingLink | OutgoingLink):
                error = handler.access.end(self.visitor.grants, moment)
                if error is not None:
                    self._drop_link(link)
                    link.detach(error)

    def _detach_closed(self) -> None:
        """Detach links to entities that were deleted, or disabled for what the link does."""
        now = self._service.clock.now()
        for link, handler in list(self._links.items()):
            error = why_closed(handler, self._used.get(link, ()))
            if error is not None:
                self._drop_link(link)
                if isinstance(handler, PendingSession):
                    link.refuse(amqp_error(error, now))
                else:
                    link.detach(amqp_error(error, now))

    def _detach_lapsed_sessions(self, now: Instant) -> None:
        """Detach links whose session is no longer theirs."""
        for link, handler in list(self._links.items()):
            if not isinstance(handler, OutgoingLink) or handler.session is None:
                continue
            if handler.session.has_ended(now):
                self._end_session_link(link, handler, amqp_error(SessionLockLost.ended(), now))

    def _flush(self) -> None:
        self.outlet.flush()
        if self._amqp.is_over:
            self.outlet.transport.close()
