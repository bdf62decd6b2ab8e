"""authenticate: who a client is, by its token or its key, and what that allows.

A token that was found good is not checked again until it ends: its signature costs more than
all else of a small request. What was remembered counts only while the rules that it was checked
against are the ones that stand, so a key that is replaced opens nothing from then on.
"""

import operator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from bendybus.broker.bearer_tokens import BearerTokens
from bendybus.broker.catalog import Catalog
from bendybus.broker.clock import Clock
from bendybus.broker.failed_attempts import FailedAttempts
from bendybus.broker.rate_limits import RateLimits, Rates
from bendybus.model.access import SCHEME, AccessRule, Claims, Keyring, log_in, read_sas
from bendybus.model.errors import AuthenticationFailed, EntityNotFound

# Only good tokens are remembered, so nobody without a key can fill this.
TOKENS_MAX: Final = 4096
_FOREVER: Final = datetime.max.replace(tzinfo=UTC)
_SAS: Final = f"{SCHEME} ".lower()


class _Known(NamedTuple):
    claims: Claims
    # What it was checked against: it counts as long as these very objects are what counts.
    checked_against: tuple[object, ...]


class Authentication:
    """Knows the keys of one namespace."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        bearer_tokens: BearerTokens | None = None,
        rates: Rates = Rates(),  # noqa: B008 - it is frozen
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._bearer_tokens = bearer_tokens
        self._known: dict[tuple[str, str | None], _Known] = {}
        self._failed = FailedAttempts(clock)
        # How much of what is allowed may be done in a second.
        self.rate_limits = RateLimits(rates, clock)

    async def claims(
        self, token: str, *, resource: str, entity: str | None, address: str
    ) -> Claims:
        """Check a token for a resource, which belongs to a queue or topic unless that is None.

        Raises `AuthenticationFailed`, the later the more of them came from the address lately,
        and `ServerBusy` if very many wait for that, or no key of the issuer is known.
        """
        claims = self._remembered(token, entity)
        if claims is None:
            async with self._failed.slowing(address):
                claims = await self._checked_at_last(token, entity)
        claims.check_unexpired(self._moment())
        claims.check_covers(resource)
        return claims

    async def log_in(self, name: str, key: str, *, address: str) -> Claims:
        """Check a name and a key themselves; such a client needs no tokens. Raises as `claims`."""
        async with self._failed.slowing(address):
            await self._catalog.records.following.look()
            return log_in(name, key, self._catalog.access.rules, expires_at=_FOREVER)

    def _remembered(self, token: str, entity: str | None) -> Claims | None:
        known = self._known.get((token, entity))
        if known is None:
            return None
        standing = self._standing(token, entity)
        if all(map(operator.is_, known.checked_against, standing)):
            return known.claims
        del self._known[token, entity]
        return None

    async def _checked_at_last(self, token: str, entity: str | None) -> Claims:
        """Check a token, and again if its key may have been made through another front end."""
        try:
            return await self._checked(token, entity)
        except AuthenticationFailed:
            standing = self._standing(token, entity)
            await self._catalog.records.following.look()
            if all(map(operator.is_, standing, self._standing(token, entity))):
                raise
        return await self._checked(token, entity)

    async def _checked(self, token: str, entity: str | None) -> Claims:
        # Taken before: keys that change meanwhile make the next one look again.
        standing = self._standing(token, entity)
        if _is_sas(token):
            keyring = Keyring(self._catalog.access.rules, entity, self._entity_rules(entity))
            claims = read_sas(token, keyring)
            claims.check_unexpired(self._moment())
        elif self._bearer_tokens is not None:
            claims = await self._bearer_tokens.claims(token, now=self._moment())
        else:
            raise AuthenticationFailed(
                "InvalidToken: The token is no shared access signature, and the broker is not told"
                " of an issuer of other tokens."
            )
        self._remember(token, entity, _Known(claims, standing))
        return claims

    def _standing(self, token: str, entity: str | None) -> tuple[object, ...]:
        """Return what such a token is checked against now."""
        if _is_sas(token):
            return self._catalog.access.rules, self._entity_rules(entity)
        return () if self._bearer_tokens is None else (self._bearer_tokens.keys.keys,)

    def _remember(self, token: str, entity: str | None, known: _Known) -> None:
        if len(self._known) >= TOKENS_MAX:
            # The one that came first: clients renew, so it is the likeliest to have ended.
            del self._known[next(iter(self._known))]
        self._known[token, entity] = known

    def _entity_rules(self, entity: str | None) -> tuple[AccessRule, ...]:
        if entity is None:
            return ()
        try:
            return self._catalog.queue(entity).properties.authorization_rules
        except EntityNotFound:
            return ()

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now() / 1000, UTC)


def _is_sas(token: str) -> bool:
    """Whether it is a shared access signature; Python declares every token a JWT."""
    return token[: len(_SAS)].lower() == _SAS
