"""Bearer tokens of an issuer: who may be trusted, and what the roles in a token allow here.

The signature is checked before (`broker/bearer_tokens.py`); this is about what it signs. Times
may differ by `SKEW` between the issuer's clock and ours.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.model.access import Claims, Right, normalise_audience, with_implied
from bendybus.model.errors import AuthenticationFailed

SKEW: Final = timedelta(minutes=5)
ROLES_MAX: Final = 1000
_HOLDER_LENGTH_MAX: Final = 256
_LATEST: Final = datetime.max.replace(tzinfo=UTC, microsecond=0) - SKEW


@dataclass(frozen=True, slots=True)
class RoleRights:
    """What a role allows: on one queue or topic, or on all."""

    role: str
    rights: frozenset[Right]
    entity: str | None = None


# The roles by which the service itself knows clients.
SERVICE_ROLES: Final = (
    RoleRights("Azure Service Bus Data Owner", frozenset(Right)),
    RoleRights("Azure Service Bus Data Sender", frozenset({Right.SEND})),
    RoleRights("Azure Service Bus Data Receiver", frozenset({Right.LISTEN})),
)


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Whose bearer tokens open a namespace. `keys` is the URL or the path of its key set (JWKS)."""

    issuer: str
    audience: str
    keys: str
    roles: tuple[RoleRights, ...] = SERVICE_ROLES


def claims_of_payload(
    payload: Mapping[str, object], issuer: TokenIssuer, *, now: datetime
) -> Claims:
    """Return what a signed payload proves. Raises `AuthenticationFailed`."""
    if payload.get("iss") != issuer.issuer:
        raise AuthenticationFailed("InvalidIssuer: The token is of another issuer.")
    if not _is_for(payload.get("aud"), issuer.audience):
        raise AuthenticationFailed(
            f"InvalidAudience: The token is not for '{issuer.audience}'. Ask the issuer for one"
            " that is"
        )
    if "nbf" in payload and _moment(payload["nbf"], "nbf") - SKEW > now:
        raise AuthenticationFailed("InvalidToken: The token is not valid yet.")
    everywhere, by_entity = _rights_of(_roles_in(payload), issuer.roles)
    subject = payload.get("sub")
    claims = Claims(
        holder=subject[:_HOLDER_LENGTH_MAX] if isinstance(subject, str) else "",
        rights=everywhere,
        resource_path="",
        expires_at=_moment(payload.get("exp"), "exp") + SKEW,
        entity_rights=by_entity,
    )
    claims.check_unexpired(now)
    return claims


def _is_for(given: object, audience: str) -> bool:
    """Whether a token's audience is ours; a slash at the end makes no difference between SDKs."""
    audiences = given if isinstance(given, list) else [given]
    wanted = audience.rstrip("/")
    return any(isinstance(each, str) and each.rstrip("/") == wanted for each in audiences)


def _moment(value: object, name: str) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise AuthenticationFailed(
            f"InvalidToken: '{name}' of the token must be a number of seconds since 1970."
        )
    try:
        return min(datetime.fromtimestamp(value, UTC), _LATEST)
    except (ValueError, OverflowError, OSError):
        raise AuthenticationFailed(f"InvalidToken: '{name}' of the token is no time.") from None


def _roles_in(payload: Mapping[str, object]) -> set[str]:
    """Return the words of `roles` (a list) and of `scp` (a text of words or, too, a list)."""
    found: set[str] = set()
    for name in ("roles", "scp"):
        value = payload.get(name)
        words = value.split() if isinstance(value, str) and name == "scp" else value
        if isinstance(words, str):
            words = [words]
        if isinstance(words, list):
            found.update(each for each in words[:ROLES_MAX] if isinstance(each, str))
    return found


def _rights_of(
    roles: set[str], known: Iterable[RoleRights]
) -> tuple[frozenset[Right], dict[str, frozenset[Right]]]:
    everywhere: frozenset[Right] = frozenset()
    by_entity: dict[str, frozenset[Right]] = {}
    for each in known:
        if each.role not in roles:
            continue
        rights = with_implied(each.rights)
        if each.entity is None:
            everywhere |= rights
        else:
            entity = normalise_audience(each.entity)
            by_entity[entity] = by_entity.get(entity, frozenset()) | rights
    return everywhere, by_entity
