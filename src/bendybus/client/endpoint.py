"""Where a namespace is and what proves that we may enter, both from its connection string."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.model.access import make_sas
from bendybus.model.connection_string import ConnectionString
from bendybus.model.hosts import address_of

PLAIN_PORT: Final = 5672
TLS_PORT: Final = 5671
TOKEN_LIFETIME: Final = timedelta(hours=1)
TOKEN_RENEWED_AFTER: Final = timedelta(minutes=45)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a socket is opened to. The development flag of a connection string means no TLS."""

    host: str
    port: int
    tls: ssl.SSLContext | None

    @property
    def address(self) -> str:
        """Where the host is."""
        return address_of(self.host)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Credential:
    """A rule with its key, which signs tokens, or one ready token."""

    host: str
    rule_name: str | None = None
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def is_renewable(self) -> bool:
        """Whether we can sign again when a token ends."""
        return self.token is None

    def audience(self, path: str) -> str:
        """Name an entity the way tokens do."""
        return f"sb://{self.host}/{path}"

    def token_for(self, path: str, now: datetime) -> str:
        """Return a token for an entity."""
        if self.token is not None:
            return self.token
        assert self.rule_name is not None
        assert self.key is not None
        return make_sas(self.audience(path), self.rule_name, self.key, now + TOKEN_LIFETIME)


def endpoint_of(given: ConnectionString, tls: ssl.SSLContext | None) -> Endpoint:
    """Return where to connect; without a context of the caller's the system's roots are trusted."""
    if given.use_development_emulator:
        return Endpoint(given.host, given.port or PLAIN_PORT, None)
    return Endpoint(given.host, given.port or TLS_PORT, tls or ssl.create_default_context())


def credential_of(given: ConnectionString) -> Credential:
    """Return what proves who we are."""
    return Credential(given.host, given.rule_name, given.key, given.token)


def utc_now() -> datetime:
    """Tokens end by the clock on the wall, unlike everything else here."""
    return datetime.now(UTC)
