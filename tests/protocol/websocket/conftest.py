"""A broker whose HTTP port takes WebSockets."""

from collections.abc import AsyncIterator

import pytest

from bendybus.assemble import websockets_to
from bendybus.testing.local_broker import serving_http
from tests.protocol.messaging.serving import Served, served, template
from tests.protocol.websocket.raw_websocket import RawWebSocket, raw_websocket

__all__ = ["served", "template"]


@pytest.fixture
async def port(served: Served) -> AsyncIterator[int]:
    """Where the broker takes WebSockets."""
    async with serving_http(served.broker, upgrade=websockets_to(served.listener)) as http:
        yield http.port


@pytest.fixture
async def stranger(port: int) -> AsyncIterator[RawWebSocket]:
    """A connection on which nothing was said."""
    async with raw_websocket(port) as connection:
        yield connection


@pytest.fixture
async def opened(stranger: RawWebSocket) -> RawWebSocket:
    """A WebSocket on which no AMQP was spoken."""
    answer = await stranger.ask()
    assert answer.status == 101
    return stranger
