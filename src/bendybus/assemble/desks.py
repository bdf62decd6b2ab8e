"""What answers HTTP requests: a desk for each namespace, made when somebody first comes to it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.routing import Route

from bendybus.assemble.drills import StoreDrills
from bendybus.broker.clock import Clock
from bendybus.broker.hosts import Hosts, ServedNamespace
from bendybus.http.access_rules import access_rule_routes
from bendybus.http.app import create_app
from bendybus.http.authorization import Authorization
from bendybus.http.exchange import Client
from bendybus.http.front import Front, Upgrade
from bendybus.http.management import management_routes
from bendybus.http.readers import reader_routes
from bendybus.http.request_head import RequestHead
from bendybus.http.rest import Rest
from bendybus.model.errors import EntityNotFound
from bendybus.server.listener import AmqpListener
from bendybus.server.websocket import WebSocketConnection


def websockets_to(listener: AmqpListener) -> Upgrade:
    """Say how HTTP hands over connections that are to be WebSockets with AMQP in them."""

    def upgrade(head: RequestHead, client: Client) -> asyncio.Protocol | None:
        del client
        is_websocket = head.fields["upgrade"].lower() == "websocket"
        return WebSocketConnection(listener.connect) if is_websocket else None

    return upgrade


@dataclass(slots=True)
class Desks:
    """The desks of the namespaces that are served."""

    hosts: Hosts
    drills: StoreDrills
    clock: Clock
    websockets: Upgrade
    # What the default namespace has beside the others.
    own: Sequence[Route]
    _made: dict[ServedNamespace, Front] = field(default_factory=dict)

    def of(self, host: str | None) -> Front:
        """Return the desk of the namespace that is meant by a host. Raises `EntityNotFound`."""
        served = self.hosts.of(host)
        desk = self._made.get(served)
        if desk is None:
            kept = self._made.items()
            self._made = {each: made for each, made in kept if not each.catalog.is_gone}
            desk = self._made[served] = self._make(served)
        return desk

    def _make(self, served: ServedNamespace) -> Front:
        catalog, authentication = served
        authorization = Authorization(authentication)
        is_default = served is self.hosts.default

        def is_elsewhere(host: str) -> bool:
            try:
                return self.hosts.of(host) is not served
            except EntityNotFound:
                return True

        app = create_app(
            namespace=catalog.namespace,
            authentication=authentication,
            drills=self.drills,
            # The stores are everybody's, and so the default one's.
            has_stores=is_default,
            is_started=lambda: True,
            now=self._now,
            routes=[
                *(self.own if is_default else ()),
                *access_rule_routes(catalog, authorization, self.clock),
                *reader_routes(catalog, authorization, self.clock),
                *management_routes(catalog, authorization, self.clock, is_elsewhere),
            ],
        )
        rest = Rest(catalog, authentication, self.clock)
        return Front(catalog.namespace, rest, app, self._now, self.websockets)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now() / 1000, UTC)
