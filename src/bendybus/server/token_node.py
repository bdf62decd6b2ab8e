"""`$cbs`: a client puts tokens here, and each opens the resources it is signed for."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from bendybus.amqp.conditions import UNAUTHORIZED_ACCESS
from bendybus.amqp.outcomes import AmqpError
from bendybus.amqp.values import Int
from bendybus.broker.authenticate import Authentication
from bendybus.broker.clock import Clock
from bendybus.broker.following import found
from bendybus.broker.hosts import ServedNamespace
from bendybus.model.access import Claims, Right, normalise_audience
from bendybus.model.addresses import Address, parse_address
from bendybus.model.errors import (
    ArgumentInvalid,
    AuthenticationFailed,
    BusError,
    NotImplementedYet,
    TokenMalformed,
    Unauthorized,
)
from bendybus.server.requests import Request
from bendybus.server.translate import CONDITIONS, description_of

TOKENS_MAX: Final = 1000


class Grants:
    """What one connection has proved, and until when."""

    def __init__(self) -> None:
        self._claims: dict[str, Claims] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was proved yet."""
        return not self._claims

    def add(self, audience: str, claims: Claims) -> None:
        """Note a token; one for the same audience is replaced, which is how clients renew."""
        if len(self._claims) >= TOKENS_MAX and audience not in self._claims:
            raise ArgumentInvalid(f"A connection can hold at most {TOKENS_MAX} tokens.")
        self._claims[audience] = claims

    def require(self, right: Right, address: Address, now: datetime) -> None:
        """Raise `Unauthorized` unless a token that has not ended gives the right."""
        resource = address.resource
        for claims in self._claims.values():
            if (
                claims.expires_at > now
                and claims.covers(resource)
                and claims.allows(right, address.path)
            ):
                return
        raise Unauthorized.missing(right.value, resource)


@dataclass(frozen=True, slots=True)
class Access:
    """What a link needs as long as it lives."""

    right: Right
    address: Address
    # Of a link that sends by way of another entity: that one.
    via: Address | None = None

    def end(self, grants: Grants, now: datetime) -> AmqpError | None:
        """Return the error to detach the link with, if its token has ended."""
        try:
            grants.require(self.right, self.address, now)
            if self.via is not None:
                grants.require(self.right, self.via, now)
        except Unauthorized as error:
            text = f"ExpiredToken: The token of the link has ended. {error}"
            return AmqpError(UNAUTHORIZED_ACCESS, text, {})
        return None


class Place(Protocol):
    """Where a client is."""

    @property
    def namespace(self) -> ServedNamespace:
        """The namespace that it is in now."""
        ...

    def look_again(self) -> bool:
        """Say whether it is in another namespace now, because that was created meanwhile."""
        ...


class TokenNode:
    """Answers the put-token requests of a client, and its SASL log-in."""

    def __init__(self, place: Place, clock: Clock, client_address: str) -> None:
        self._place = place
        self._clock = clock
        self.client_address = client_address

    async def put_token(self, request: Request, grants: Grants) -> dict[object, object]:
        """Check a token and note what it proves; return the properties of the response."""
        try:
            await self._check(request, grants)
        except BusError as error:
            return {
                "status-code": Int(CONDITIONS[error.code].status),
                "status-description": description_of(error, self._clock.now()),
            }
        return {"status-code": Int(202), "status-description": "Accepted"}

    async def log_in(self, response: bytes) -> Claims | None:
        """Check the name and key of SASL PLAIN; such a connection needs no tokens."""
        _, _, login = response.partition(b"\0")
        name, _, key = login.partition(b"\0")
        try:
            return await self._log_in(
                name.decode("utf-8", "replace"), key.decode("utf-8", "replace")
            )
        except BusError:
            return None

    async def _log_in(self, name: str, key: str) -> Claims:
        try:
            return await self._authentication.log_in(name, key, address=self.client_address)
        except AuthenticationFailed:
            if not self._place.look_again():
                raise
        return await self._authentication.log_in(name, key, address=self.client_address)

    async def _check(self, request: Request, grants: Grants) -> None:
        if request.text("operation") != "put-token":
            raise NotImplementedYet("This node knows the operation put-token only.")
        audience = request.text("name")
        if not audience:
            raise TokenMalformed("The request names no audience.")
        if not isinstance(request.body, str):
            raise TokenMalformed("The body of the request is not a token.")
        path = normalise_audience(audience)
        entity = parse_address(path).path if path else None
        claims = await self._claims(request.body, path, entity)
        if entity is not None:
            catalog = self._place.namespace.catalog
            await found(catalog.records.following, lambda: catalog.queue(entity))
        grants.add(path, claims)

    async def _claims(self, token: str, path: str, entity: str | None) -> Claims:
        try:
            return await self._authentication.claims(
                token, resource=path, entity=entity, address=self.client_address
            )
        except AuthenticationFailed:
            # Whoever finds no key has learnt what other front ends have created until now.
            if not self._place.look_again():
                raise
        return await self._authentication.claims(
            token, resource=path, entity=entity, address=self.client_address
        )

    @property
    def _authentication(self) -> Authentication:
        return self._place.namespace.authentication
