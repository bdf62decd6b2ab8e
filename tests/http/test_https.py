"""HTTP through TLS: requests, refusals and the end of a connection are as without."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from bendybus.doors.door import Door
from bendybus.doors.local_authority import AuthorityFolder, make_certificate
from bendybus.doors.tls import ServerTls
from bendybus.http.serving import HttpServer, serve_http
from tests.http.test_serving import EchoDesk

SECONDS_MAX = 10.0


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFolder:
    made = AuthorityFolder(tmp_path / "tls")
    make_certificate(made, ["localhost"], days=1, now=datetime.now(UTC))
    return made


@pytest.fixture
async def server(files: AuthorityFolder) -> AsyncIterator[HttpServer]:
    """A plain and an encrypted door, and the same desk behind both."""
    tls = ServerTls(files.server, files.server_key).served(("http/1.1",))
    doors = [Door("http", "127.0.0.1", 0), Door("https", "127.0.0.1", 0, tls)]
    running = await serve_http(EchoDesk(), doors)
    try:
        yield running
    finally:
        await running.close()


@pytest.fixture
def trusting(files: AuthorityFolder) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(files.authority))


async def test_both_doors_lead_to_the_same(server: HttpServer, trusting: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(verify=trusting, trust_env=False) as client:
        for scheme in ("http", "https"):
            url = f"{scheme}://localhost:{server.ports[scheme]}/there"
            answers = [await client.post(url, content=b"!" * 900) for _ in range(3)]
            assert [answer.text for answer in answers] == ["/there" + "!" * 900] * 3


async def test_a_large_answer_comes_whole(server: HttpServer, trusting: ssl.SSLContext) -> None:
    async with httpx.AsyncClient(verify=trusting, trust_env=False) as client:
        answer = await client.get(f"https://localhost:{server.ports['https']}/large")
    assert len(answer.content) == 8_000_000


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", b"413"),
    ],
)
async def test_what_is_refused_is_answered_before_the_end(
    server: HttpServer, trusting: ssl.SSLContext, request_bytes: bytes, status: bytes
) -> None:
    reader, writer = await asyncio.open_connection("localhost", server.ports["https"], ssl=trusting)
    writer.write(request_bytes)
    async with asyncio.timeout(SECONDS_MAX):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 " + status)
