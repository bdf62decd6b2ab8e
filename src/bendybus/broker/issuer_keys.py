"""The public keys of an issuer (a JWKS), as last read; read again now and then, and when needed.

A token may be signed with a key that we have not seen: then the keys are read again, but not more
often than `REST_SECONDS`, so that nobody can make us ask the issuer all the time. All who wait
for that wait for the same answer. While the issuer cannot be reached, the keys that are known
count.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bendybus.broker.clock import Clock
from bendybus.model.errors import AuthenticationFailed, ServerBusy
from bendybus.model.ids import Instant

DOCUMENT_BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 100
REFRESH_SECONDS: Final = 3600
REST_SECONDS: Final = 10
RSA_BITS_MIN: Final = 2048
# The algorithms we take, by the kind of key. Never `none`, and none with a shared secret: a public
# key taken for one would let everyone sign.
ALGORITHMS: Final = {"RSA": "RS256", "EC": "ES256"}

Fetch = Callable[[], Awaitable[bytes]]

_log = logging.getLogger(__name__)


class KeySetInvalid(Exception):
    """What the issuer gives is not a set of keys."""


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One key, and the only algorithm that it signs with."""

    algorithm: str
    # A `jwt.PyJWK`. That library is loaded only where there is an issuer: it takes 15 MB.
    key: Any


class IssuerKeys:
    """Keeps the keys of one issuer."""

    def __init__(self, source: str, fetch: Fetch, clock: Clock) -> None:
        self._source = source
        self._fetch = fetch
        self._clock = clock
        self._document: bytes | None = None
        # A new object whenever keys change: what was checked against the old counts no more.
        self.keys: Mapping[str, IssuerKey] = {}
        self._asked_at: Instant | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Read the keys again now and then, until cancelled."""
        while True:
            await self.refreshed()
            await asyncio.sleep(REFRESH_SECONDS if self._document is not None else REST_SECONDS)

    async def key(self, name: str) -> IssuerKey:
        """Return a key. Raises `AuthenticationFailed`, or `ServerBusy` if none are known at all."""
        if name not in self.keys and self._is_rested:
            await self.refreshed()
        found = self.keys.get(name)
        if found is not None:
            return found
        if self._document is None:
            raise ServerBusy(
                f"The keys of the token's issuer could not be read from {self._source}; see the log"
            )
        raise AuthenticationFailed("InvalidSignature: No key of the issuer has that name.")

    async def refreshed(self) -> None:
        """Read the keys, or wait for that if it is under way. What goes wrong is logged."""
        if self._refreshing is None:
            self._asked_at = self._clock.now()
            self._refreshing = asyncio.create_task(self._refresh())
        # One who gives up must not end it for the others.
        await asyncio.shield(self._refreshing)

    @property
    def _is_rested(self) -> bool:
        asked_at = self._asked_at
        is_under_way = self._refreshing is not None
        return (
            is_under_way or asked_at is None or self._clock.now() - asked_at >= REST_SECONDS * 1000
        )

    async def _refresh(self) -> None:
        try:
            document = await self._fetch()
            if document != self._document:
                self.keys = read_keys(document)
                self._document = document
                _log.info("read %d keys from %s", len(self.keys), self._source)
        except (OSError, KeySetInvalid) as error:
            _log.warning("cannot read keys from %s: %s", self._source, error)
        finally:
            self._refreshing = None


def read_keys(document: bytes) -> dict[str, IssuerKey]:
    """Read the keys of a set that sign; others are left out. Raises `KeySetInvalid`."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    if len(document) > DOCUMENT_BYTES_MAX:
        raise KeySetInvalid(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        entries: Any = json.loads(document)["keys"]
        entries = [each for each in entries if isinstance(each, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise KeySetInvalid("it is no JSON object with a list of keys") from None
    keys: dict[str, IssuerKey] = {}
    for entry in entries[:KEYS_MAX]:
        name, algorithm = entry.get("kid"), _algorithm_of(entry)
        if not isinstance(name, str) or algorithm is None:
            continue
        try:
            key = PyJWK(entry, algorithm)
        except (PyJWTError, ValueError, TypeError) as error:
            _log.warning("key %.100r of the issuer cannot be used: %s", name, error)
            continue
        if algorithm == "RS256" and key.key.key_size < RSA_BITS_MIN:
            _log.warning("key %.100r has less than %d bits", name, RSA_BITS_MIN)
            continue
        keys.setdefault(name, IssuerKey(algorithm, key))
    return keys


def _algorithm_of(entry: Mapping[str, object]) -> str | None:
    """Return what a key signs with, or None if it is not for that."""
    algorithm = ALGORITHMS.get(str(entry.get("kty")))
    if entry.get("use") not in (None, "sig") or entry.get("alg") not in (None, algorithm):
        return None
    if algorithm == "ES256" and entry.get("crv") != "P-256":
        return None
    # A set with private keys in it was given by mistake, and is known to who knows whom.
    return None if "d" in entry else algorithm
