r"""Who may do what: shared access rules, and the signed tokens that prove one holds their key.

A token (a "SAS") is the text

    SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry>&skn=<rule name>

with the parameters in any order. The signature is the base64 of HMAC-SHA256 over
`sr + "\n" + se`, keyed with the UTF-8 bytes of the key *text* (never base64-decoded).

Rule 1: `sr` and `se` are signed as they stand in the token, encoded or not. Clients differ in
        how they encode, so re-encoding before checking would refuse good tokens.
Rule 2: a token covers a resource if its path is a prefix of it, whole segments compared without
        case. The host is not compared: one broker answers under many names.
Rule 3: a rule of the namespace opens every entity. A rule of a queue or topic opens that one
        alone, whatever resource its holder signs for; also not `a/b` if it belongs to `a`.
Rule 4: which rights an action needs is the caller's business (`model/actions.py`); a token of a
        rule without the right is a good token here.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Final
from urllib.parse import quote, unquote, unquote_plus

from bendybus.model.errors import AuthenticationFailed, TokenMalformed, Unauthorized
from bendybus.model.ids import Instant

SCHEME: Final = "SharedAccessSignature"
TOKEN_LENGTH_MAX: Final = 8192
EXPIRY_DIGITS_MAX: Final = 18

_PARAMETERS: Final = frozenset({"sr", "sig", "se", "skn"})
# Not urlsplit: it raises on hosts it dislikes, and any text must do as an audience.
_ABSOLUTE_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*(?P<path>[^?#]*)")
_LATEST: Final = datetime.max.replace(tzinfo=UTC, microsecond=0)


class Right(Enum):
    """What a rule can allow. Manage implies the other two."""

    LISTEN = "Listen"
    SEND = "Send"
    MANAGE = "Manage"


def with_implied(rights: Iterable[Right]) -> frozenset[Right]:
    """Return the rights together with those they imply."""
    given = frozenset(rights)
    return frozenset(Right) if Right.MANAGE in given else given


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A named pair of keys and what they allow. Two keys, so that one can be replaced in use.

    A key that is None is still to be made; `access_rules.completed` does. Two rules are equal if
    they open the same, whenever they were made.
    """

    name: str
    primary_key: str | None = field(repr=False)
    rights: frozenset[Right]
    secondary_key: str | None = field(default=None, repr=False)
    created_at: Instant | None = field(default=None, compare=False)
    modified_at: Instant | None = field(default=None, compare=False)
    # A digest of what the settings said of the rule when they last had a say; None if it was made
    # in another way.
    declared: str | None = field(default=None, repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that signs for this rule."""
        # An empty key would let everyone sign.
        return tuple([key for key in (self.primary_key, self.secondary_key) if key])


@dataclass(frozen=True, slots=True)
class Claims:
    """What a good token proves, until `expires_at`."""

    holder: str
    rights: frozenset[Right]
    resource_path: str
    expires_at: datetime
    # Rights on single queues and topics beyond those on all, by normalised name.
    entity_rights: Mapping[str, frozenset[Right]] = field(default_factory=dict)

    def allows(self, right: Right, entity: str | None = None) -> bool:
        """Whether the right is there, given or implied: on a queue or topic, or on all of them."""
        if right in self.rights:
            return True
        if not self.entity_rights or entity is None:
            return False
        return right in self.entity_rights.get(normalise_audience(entity), ())

    def covers(self, audience: str) -> bool:
        """Whether the token's resource is the given URI or path, or above it."""
        return not self.resource_path or _is_prefix(
            self.resource_path, normalise_audience(audience)
        )

    def check_covers(self, audience: str) -> None:
        """Raise `AuthenticationFailed` if the token is for another resource."""
        if not self.covers(audience):
            raise AuthenticationFailed(
                f"InvalidAudience: The token is for '/{self.resource_path}', which does not cover"
                f" '/{normalise_audience(audience)}'."
            )

    def check_unexpired(self, now: datetime) -> None:
        """Raise `AuthenticationFailed` if the token has ended."""
        if self.expires_at <= now:
            raise AuthenticationFailed(
                f"ExpiredToken: The token expired at {self.expires_at:%Y-%m-%dT%H:%M:%SZ}."
            )

    def require(self, right: Right, resource: str, entity: str | None = None) -> None:
        """Raise `Unauthorized`, naming the resource, unless the right is there."""
        if not self.allows(right, entity):
            raise Unauthorized.missing(right.value, resource)


def claims_of_rule(
    rule: AccessRule, *, entity: str | None, resource_path: str, expires_at: datetime
) -> Claims:
    """Return what holding a key of a rule proves; `entity` is whose rule it is, if not of all."""
    rights = with_implied(rule.rights)
    if entity is None:
        return Claims(rule.name, rights, resource_path, expires_at)
    scope = {normalise_audience(entity): rights}
    return Claims(rule.name, frozenset(), resource_path, expires_at, scope)


@dataclass(frozen=True, slots=True)
class Keyring:
    """The rules that can sign for one resource: those of the namespace and of its entity."""

    namespace: tuple[AccessRule, ...]
    entity: str | None = None
    entity_rules: tuple[AccessRule, ...] = ()


@dataclass(frozen=True, slots=True)
class _Token:
    resource: str
    signature: str
    expiry: str
    rule_name: str


def read_sas(token: str, keyring: Keyring) -> Claims:
    """Check the signature of a token; whether it has ended and what it covers is still to check.

    An unknown rule and a wrong key get one answer, so that names of rules cannot be guessed.
    """
    parts = _parse_token(token)
    resource_path = _resource_path(parts.resource)
    expires_at = _expiry(parts.expiry)
    for entity, rules in ((keyring.entity, keyring.entity_rules), (None, keyring.namespace)):
        rule = _signing_rule(parts, rules)
        if rule is not None:
            return claims_of_rule(
                rule, entity=entity, resource_path=resource_path, expires_at=expires_at
            )
    raise AuthenticationFailed("InvalidSignature: The token has an invalid signature.")


def log_in(name: str, key: str, rules: Iterable[AccessRule], *, expires_at: datetime) -> Claims:
    """Check a name and a key themselves, as SASL PLAIN gives them.

    Raises `AuthenticationFailed`. Only rules of the namespace: there is no entity to look at.
    """
    found: AccessRule | None = None
    for rule in rules:
        for each in rule.keys:
            is_key = hmac.compare_digest(each.encode(), key.encode())
            if is_key and hmac.compare_digest(rule.name.encode(), name.encode()):
                found = rule
    if found is None:
        raise AuthenticationFailed("InvalidSignature: The name or the key is wrong.")
    return claims_of_rule(found, entity=None, resource_path="", expires_at=expires_at)


def make_sas(resource_uri: str, rule_name: str, key: str, expires_at: datetime) -> str:
    """Sign a token for a resource, as the official clients do."""
    resource = quote(resource_uri, safe="")
    expiry = str(int(expires_at.timestamp()))
    signature = quote(_sign(resource, expiry, key), safe="")
    return f"{SCHEME} sr={resource}&sig={signature}&se={expiry}&skn={quote(rule_name, safe='')}"


def normalise_audience(audience: str) -> str:
    """Reduce a resource to the path that tokens are compared by; empty means the namespace.

    Takes an absolute URI or a bare path. The client's `$management` node is authorised by the
    entity it belongs to, so it is dropped; alone it is no entity's, and stays.
    """
    absolute = _ABSOLUTE_URI.match(audience)
    path = audience if absolute is None else absolute["path"]
    segments = [segment for segment in unquote(path).lower().split("/") if segment]
    while len(segments) > 1 and segments[-1] == "$management":
        segments.pop()
    return "/".join(segments)


def _is_prefix(resource_path: str, audience_path: str) -> bool:
    return not resource_path or f"{audience_path}/".startswith(f"{resource_path}/")


def _parse_token(token: str) -> _Token:
    if len(token) > TOKEN_LENGTH_MAX:
        raise TokenMalformed(
            f"MalformedToken: The token is longer than {TOKEN_LENGTH_MAX} characters."
        )
    scheme, _, text = token.strip().partition(" ")
    if scheme.lower() != SCHEME.lower():
        raise TokenMalformed(f"MalformedToken: The token must start with '{SCHEME} '.")
    values = _parse_parameters(text)
    return _Token(values["sr"], unquote(values["sig"]), values["se"], values["skn"])


def _parse_parameters(text: str) -> Mapping[str, str]:
    values: dict[str, str] = {}
    for parameter in text.strip().split("&"):
        name, _, value = parameter.partition("=")
        # A parameter given twice could be read differently by whoever checks the token next.
        if name not in _PARAMETERS or name in values:
            raise TokenMalformed(
                f"MalformedToken: Unexpected parameter '{name[:20]}' in the token."
            )
        values[name] = value
    missing = sorted(name for name in _PARAMETERS if not values.get(name))
    if missing:
        raise TokenMalformed(f"MalformedToken: The token lacks '{', '.join(missing)}'.")
    return values


def _resource_path(resource: str) -> str:
    uri = unquote(resource)
    # Without a scheme the first segment could be a host or an entity. Taking an entity for a
    # host would turn a token for one queue into a token for the whole namespace.
    if _ABSOLUTE_URI.match(uri) is None:
        raise TokenMalformed(
            "MalformedToken: 'sr' must be an absolute URI, such as sb://host/queue."
        )
    return normalise_audience(uri)


def _expiry(text: str) -> datetime:
    if not (text.isascii() and text.isdecimal() and len(text) <= EXPIRY_DIGITS_MAX):
        raise TokenMalformed("MalformedToken: 'se' must be a whole number of seconds since 1970.")
    seconds = min(int(text), int(_LATEST.timestamp()))
    return datetime.fromtimestamp(seconds, tz=UTC)


def _signing_rule(token: _Token, rules: Iterable[AccessRule]) -> AccessRule | None:
    # The Python client encodes unusual rule names twice.
    once = unquote_plus(token.rule_name)
    names = {once, unquote_plus(once)}
    given = token.signature.encode()
    for rule in rules:
        if rule.name not in names:
            continue
        for key in rule.keys:
            expected = _sign(token.resource, token.expiry, key).encode()
            if hmac.compare_digest(expected, given):
                return rule
    return None


def _sign(resource: str, expiry: str, key: str) -> str:
    digest = hmac.new(key.encode(), f"{resource}\n{expiry}".encode(), hashlib.sha256).digest()
    return base64.b64encode(digest).decode("ascii")
