"""Who calls, by the shared access token in the Authorization header."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request

from bendybus.model.access import AccessRule, Claims, Right, verify_sas
from bendybus.model.errors import AuthenticationFailed


@dataclass(frozen=True, slots=True)
class Authorization:
    """Checks requests against the rules of the namespace."""

    rules: Sequence[AccessRule]
    now: Callable[[], datetime]

    def require(self, request: Request, right: Right) -> Claims:
        """Return who calls. Raises `AuthenticationFailed`, or `Unauthorized` without the right."""
        token = request.headers.get("authorization")
        if not token:
            raise AuthenticationFailed(
                "MissingToken: The request has no Authorization header. Sign it with a key of the"
                " namespace"
            )
        path = request.url.path
        claims = verify_sas(token, audience_path=path, rules=self.rules, now=self.now())
        claims.require(right, path)
        return claims
