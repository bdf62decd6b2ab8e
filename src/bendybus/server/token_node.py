"""`$cbs`: a client puts tokens here, and each opens the resources it is signed for."""

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bendybus.amqp.conditions import UNAUTHORIZED_ACCESS
from bendybus.amqp.outcomes import AmqpError
from bendybus.amqp.values import Int
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.model.access import (
    AccessRule,
    Claims,
    Right,
    normalise_audience,
    verify_sas,
    with_implied,
)
from bendybus.model.errors import (
    ArgumentInvalid,
    AuthenticationFailed,
    BusError,
    NotImplementedYet,
    TokenMalformed,
    Unauthorized,
)
from bendybus.server.addresses import parse_address
from bendybus.server.requests import Request
from bendybus.server.translate import CONDITIONS, description_of

TOKENS_MAX: Final = 1000
_FOREVER: Final = datetime.max.replace(tzinfo=UTC)


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

    def require(self, right: Right, resource: str, now: datetime) -> None:
        """Raise `Unauthorized` unless a token that has not ended gives the right."""
        covering = [
            claims
            for claims in self._claims.values()
            if claims.covers(resource) and claims.expires_at > now
        ]
        if not any(claims.allows(right) for claims in covering):
            raise Unauthorized.missing(right.value, resource)


@dataclass(frozen=True, slots=True)
class Access:
    """What a link needs as long as it lives."""

    right: Right
    resource: str
    # Of a link that sends by way of another entity: that one.
    via: str | None = None

    def end(self, grants: Grants, now: datetime) -> AmqpError | None:
        """Return the error to detach the link with, if its token has ended."""
        try:
            grants.require(self.right, self.resource, now)
            if self.via is not None:
                grants.require(self.right, self.via, now)
        except Unauthorized as error:
            text = f"ExpiredToken: The token of the link has ended. {error}"
            return AmqpError(UNAUTHORIZED_ACCESS, text, {})
        return None


class TokenNode:
    """Answers put-token requests."""

    def __init__(self, catalog: Catalog, rules: tuple[AccessRule, ...], clock: Clock) -> None:
        self._catalog = catalog
        self._rules = rules
        self._clock = clock

    def put_token(self, request: Request, grants: Grants) -> dict[object, object]:
        """Check a token and note what it proves; return the properties of the response."""
        now = self._clock.now()
        try:
            self._check(request, grants)
        except BusError as error:
            return {
                "status-code": Int(CONDITIONS[error.code].status),
                "status-description": description_of(error, now),
            }
        return {"status-code": Int(202), "status-description": "Accepted"}

    def log_in(self, name: str, key: str) -> Claims | None:
        """Check the name and key of SASL PLAIN; such a connection needs no tokens."""
        for rule in self._rules:
            if hmac.compare_digest(rule.name.encode(), name.encode()) and any(
                hmac.compare_digest(each.encode(), key.encode()) for each in rule.keys
            ):
                return Claims(rule.name, with_implied(rule.rights), "", _FOREVER)
        return None

    def _check(self, request: Request, grants: Grants) -> None:
        if request.text("operation") != "put-token":
            raise NotImplementedYet("This node knows the operation put-token only.")
        audience = request.text("name")
        if not audience:
            raise TokenMalformed("The request names no audience.")
        if not isinstance(request.body, str):
            raise TokenMalformed("The body of the request is not a token.")
        # Python declares every token a JWT, so the content decides.
        if not request.body.startswith("SharedAccessSignature "):
            raise AuthenticationFailed(
                "InvalidToken: Only shared access signatures are accepted by this version."
            )
        moment = datetime.fromtimestamp(self._clock.now() / 1000, UTC)
        path = normalise_audience(audience)
        claims = verify_sas(request.body, audience_path=path, rules=self._rules, now=moment)
        if path:
            self._catalog.queue(parse_address(path).path)
        grants.add(path, claims)
