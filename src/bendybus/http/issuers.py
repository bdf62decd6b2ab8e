"""Trusting an issuer of bearer tokens: its keys are read from a URL or a file, and kept fresh."""

import asyncio
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Final

from bendybus.broker.bearer_tokens import BearerTokens
from bendybus.broker.clock import Clock
from bendybus.broker.issuer_keys import DOCUMENT_BYTES_MAX, Fetch, IssuerKeys
from bendybus.model.token_issuer import TokenIssuer

TIMEOUT_SECONDS: Final = 5.0
_PART_BYTES: Final = 4096


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from where the operator said, and from nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


@asynccontextmanager
async def trusting(issuer: TokenIssuer | None, clock: Clock) -> AsyncIterator[BearerTokens | None]:
    """Keep the keys of an issuer while the block runs; it need not be there from the start."""
    if issuer is None:
        yield None
        return
    keys = IssuerKeys(issuer.keys, document_source(issuer.keys), clock)
    task = asyncio.create_task(keys.run(), name="issuer-keys")
    try:
        yield BearerTokens(issuer, keys)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def document_source(source: str) -> Fetch:
    """Return what reads a document of bounded size in bounded time. It raises `OSError`."""
    read = _read_url if source.startswith(("https://", "http://")) else _read_file

    async def fetch() -> bytes:
        # The time-out of a socket counts from byte to byte; this one is for the whole.
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await asyncio.to_thread(read, source)
        except TimeoutError:
            raise OSError(f"no answer within {TIMEOUT_SECONDS:.0f} seconds") from None

    return fetch


def _read_url(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked by who configured it
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return _bounded(answer)
    except (HTTPException, ValueError) as error:
        raise OSError(f"it does not answer as a web server does: {error!r}") from None


def _read_file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return _bounded(file)


def _bounded(file: IO[bytes]) -> bytes:
    """Read it all, unless it is large or drips: then its thread must not wait for ever."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    content = b""
    while part := file.read(_PART_BYTES):
        content += part
        if len(content) > DOCUMENT_BYTES_MAX:
            raise OSError(f"it has more than {DOCUMENT_BYTES_MAX} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return content
