"""Whether a client may have messages taken to another entity.

Who forwards to an entity sends to it. The keys of a namespace open all entities; whoever holds only
those of one queue or topic proves in a second header that it may send to the target as well.
"""

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from bendybus.http.authorization import Authorization
from bendybus.model.access import Claims
from bendybus.model.actions import RIGHTS_NEEDED, Action
from bendybus.model.entity import Queue, Subscription, Topic, name_key

_HEADERS: Final[Mapping[str, str]] = {
    "forward_to": "servicebussupplementaryauthorization",
    "forward_dead_lettered_messages_to": "servicebusdlqsupplementaryauthorization",
}


async def check_targets(
    given: Mapping[str, Any],
    before: Queue | Topic | Subscription | None,
    claims: Claims,
    request: Request,
    authorization: Authorization,
) -> None:
    """Refuse a target among the given properties that is new and that the client may not send to.

    Raises `AuthenticationFailed` or `Unauthorized`.
    """
    client = request.client
    for field, header in _HEADERS.items():
        target: str | None = given.get(field)
        known: str | None = getattr(before and before.properties, field, None)
        if target is None or (known is not None and name_key(known) == name_key(target)):
            continue
        if not claims.allows(RIGHTS_NEEDED[Action.SEND], target):
            await authorization.require_token(
                request.headers.get(header),
                Action.SEND,
                path=f"/{target}",
                entity=target,
                client=("", 0) if client is None else (client.host, client.port),
            )
