"""authorize: whether the bearer of a token may do what it asks for, at doors of requests."""

from typing import Final

from bendybus.broker.authenticate import Authentication
from bendybus.model.access import Claims
from bendybus.model.actions import RIGHTS_NEEDED, Action
from bendybus.model.errors import AuthenticationFailed

_BEARER: Final = "bearer "


class Authorization:
    """Lets requests through that a token allows, as many as the namespace takes."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    async def require_token(
        self,
        header: str | None,
        action: Action,
        *,
        path: str,
        entity: str | None,
        client: tuple[str, int],
    ) -> Claims:
        """Return who calls, by the value of the header that names the token.

        `entity` is the queue or topic that the request is about, by name; without one, keys of
        single entities open nothing. `client` is the address and the port at its end. Raises
        `AuthenticationFailed`, `Unauthorized` without the right, and `Throttled`.
        """
        claims = await self._claims(header, path=path, entity=entity, client=client)
        claims.require(RIGHTS_NEEDED[action], path, entity)
        self._authentication.rate_limits.check(client)
        return claims

    async def _claims(
        self, header: str | None, *, path: str, entity: str | None, client: tuple[str, int]
    ) -> Claims:
        if not header:
            raise AuthenticationFailed(
                "MissingToken: The request has no Authorization header. Sign it with a key of the"
                " namespace or the entity"
            )
        token = header
        if header[: len(_BEARER)].lower() == _BEARER:
            token = header[len(_BEARER) :].strip()
        return await self._authentication.claims(
            token, resource=path, entity=entity, address=client[0]
        )
