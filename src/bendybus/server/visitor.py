"""Who the client of a connection is: where it comes from, where it wants to, what it has proved."""

from collections.abc import Collection
from contextlib import suppress
from typing import Final, Protocol

from bendybus.broker.clock import Clock
from bendybus.broker.hosts import Hosts
from bendybus.broker.rate_limits import ConnectionRate
from bendybus.model.errors import EntityNotFound, QuotaExceeded, ServerBusy, Unauthorized
from bendybus.server.token_node import Grants, TokenNode

# The service allows so many on one namespace.
CONNECTIONS_MAX: Final = 5000
# Connections of one address that have proved nothing yet, so that one alone cannot use them up.
STRANGERS_MAX: Final = 500


class Visited(Protocol):
    """A connection."""

    @property
    def visitor(self) -> "Visitor":
        """Its client."""
        ...


class Visitor:
    """A client, from its first byte on."""

    def __init__(self, hosts: Hosts, clock: Clock) -> None:
        # Port numbers come and go; who guesses keys is known by the address alone.
        self.address = ""
        # The host that it named before it opened the connection: of TLS, then of SASL.
        self.login_host: str | None = None
        # What it named in the Open, or else before.
        self._host: str | None = None
        # The default one until it says otherwise.
        self.namespace = hosts.default
        self.grants = Grants()
        self.rate: ConnectionRate | None = None
        self._hosts = hosts
        self._clock = clock

    def enter(self, host: str | None, connections: "Collection[Visited]") -> None:
        """Be in the namespace of a host from here on. Raises `BusError` if that cannot be.

        Its own connection is among those that there are.
        """
        self._host = host or self.login_host
        namespace = self._hosts.of(self._host)
        if namespace is not self.namespace and not self.grants.is_empty:
            raise Unauthorized("The key was that of another namespace than the one to be opened.")
        self.namespace = namespace
        self.rate = namespace.authentication.rate_limits.new_connection()
        if len(connections) > CONNECTIONS_MAX and self._is_full(connections):
            raise QuotaExceeded(
                f"The namespace has {CONNECTIONS_MAX} connections already; close some."
            )
        if len(connections) > STRANGERS_MAX and self._is_crowded(connections):
            raise ServerBusy("Too many connections from this address have proved nothing yet.")

    async def log_in(self, response: bytes) -> bool:
        """Check the name and key of SASL PLAIN; a wrong one may be answered late."""
        claims = None
        with suppress(EntityNotFound):
            self._host = self.login_host
            self.namespace = self._hosts.of(self._host)
            claims = await self.token_node().log_in(response)
        if claims is None:
            return False
        self.grants.add("", claims)
        return True

    def look_again(self) -> bool:
        """Be where its host leads now, if it has proved nothing yet; say whether that is new.

        It may have come before this front end knew of a namespace that another had created, and
        be in the default one for that.
        """
        namespace = self._hosts.of(self._host)
        if namespace is self.namespace or not self.grants.is_empty:
            return False
        self.namespace = namespace
        self.rate = namespace.authentication.rate_limits.new_connection()
        return True

    def token_node(self) -> TokenNode:
        """Return what checks the tokens of its namespace."""
        return TokenNode(self, self._clock, self.address)

    def _is_full(self, connections: "Collection[Visited]") -> bool:
        here = sum(each.visitor.namespace is self.namespace for each in connections)
        return here > CONNECTIONS_MAX

    def _is_crowded(self, connections: "Collection[Visited]") -> bool:
        """Whether strangers from its address could take the connections of others."""
        strangers = sum(
            each.visitor.grants.is_empty and each.visitor.address == self.address
            for each in connections
        )
        return strangers > STRANGERS_MAX
