"""Who calls, by the token in the Authorization header."""

from starlette.requests import Request

from bendybus.broker.authenticate import Authentication
from bendybus.model.access import Claims
from bendybus.model.actions import RIGHTS_NEEDED, Action
from bendybus.model.errors import AuthenticationFailed


class Authorization:
    """Lets requests through that a token allows."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    async def require(
        self, request: Request, action: Action, *, entity: str | None = None
    ) -> Claims:
        """Return who calls. Raises `AuthenticationFailed`, or `Unauthorized` without the right.

        `entity` is the queue or topic that the request is about, by name; without one, keys of
        single entities open nothing.
        """
        token = request.headers.get("authorization")
        if not token:
            raise AuthenticationFailed(
                "MissingToken: The request has no Authorization header. Sign it with a key of the"
                " namespace"
            )
        path = request.url.path
        client = request.client
        claims = await self._authentication.claims(
            token, resource=path, entity=entity, address="" if client is None else client.host
        )
        claims.require(RIGHTS_NEEDED[action], path, entity)
        return claims
