"""Who calls, by the token in the Authorization header, and whether that is allowed."""

from starlette.requests import Request

from bendybus.broker import authorize
from bendybus.model.access import Claims
from bendybus.model.actions import Action


class Authorization(authorize.Authorization):
    """Lets requests over HTTP through that a token allows."""

    async def require(
        self, request: Request, action: Action, *, entity: str | None = None
    ) -> Claims:
        """Return who calls; see `require_token`."""
        client = request.client
        return await self.require_token(
            request.headers.get("authorization"),
            action,
            path=request.url.path,
            entity=entity,
            client=("", 0) if client is None else (client.host, client.port),
        )
