"""A client and a server of our own, talking through bytes that may be cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.events import (
    AttachReceived,
    CloseReceived,
    DetachReceived,
    DispositionReceived,
    Event,
    FlowReceived,
    OpenReceived,
    SaslInitReceived,
    SenderDispositionReceived,
    TransferReceived,
)
from bendybus.amqp.performatives import Accepted, Modified, Source, Target
from bendybus.amqp.session import AmqpLink, LinkRole
from tests.protocol.transport.retelling import retell

Cut = Callable[[bytes], list[bytes]]


class EchoServer:
    """Takes messages on one link and sends them back on another, settling as asked."""

    def __init__(self) -> None:
        settings = ConnectionSettings(container_id="server", frame_size_max=1024)
        self.engine = AmqpConnection(settings)
        self.messages: list[bytes] = []
        self.told: list[Event] = []

    def take(self, data: bytes) -> None:
        """Read and answer."""
        events = self.engine.receive_data(data)
        while events:
            self.told += events
            events = [follow for event in events for follow in self._answer(event)]

    def _answer(self, event: Event) -> list[Event]:  # noqa: C901  one case per event
        match event:
            case SaslInitReceived():
                return self.engine.sasl_outcome(event.response == b"\0user\0key")
            case OpenReceived():
                self.engine.open()
            case AttachReceived(link=link):
                link.accept_attach(max_message_size=100_000)
                if link.role is LinkRole.RECEIVER:
                    link.grant(50)
                self._send_on(link)
            case TransferReceived(link=link):
                self.messages.append(event.payload)
                link.settle(event.delivery_id, event.delivery_id, Accepted())
            case FlowReceived(link=link):
                self._send_on(link)
                if link.drain:
                    link.answer_drain()
            case DispositionReceived(link=link) if not event.settled:
                link.settle_sent(event.deliveries, event.state)
            case DetachReceived(link=link):
                link.detach()
            case CloseReceived():
                self.engine.close()
            case _:
                pass
        return []

    def _send_on(self, link: AmqpLink) -> None:
        while self.messages and link.role is LinkRole.SENDER and link.sendable():
            number = len(self.messages)
            link.send(self.messages.pop(0), number.to_bytes(16, "big"), settled=False)


def talk(messages: list[bytes], cut: Cut) -> tuple[list[Event], list[Event]]:
    """Send messages there and back over a stream cut in pieces; return what each side was told."""
    server = EchoServer()
    client = AmqpConnection(
        ConnectionSettings(
            container_id="client", sasl_username="user", sasl_password="key", frame_size_max=600
        ),
        Role.CLIENT,
    )
    client.open()
    session = client.begin()
    away = session.attach("away", LinkRole.SENDER, source=Source(), target=Target(address="q"))
    back = session.attach("back", LinkRole.RECEIVER, source=Source(address="q"), target=Target())
    told: list[Event] = []

    def exchange() -> None:
        while (data := client.data_to_send()) or server.engine.is_over:
            for piece in cut(data):
                server.take(piece)
            answer = server.engine.data_to_send()
            for piece in cut(answer):
                told.extend(client.receive_data(piece))
            if not data and not answer:
                return

    exchange()
    for number, message in enumerate(messages):
        away.send(message, number.to_bytes(16, "big"), settled=False)
        exchange()
    back.grant(len(messages), drain=True)
    exchange()
    for event in told:
        if isinstance(event, TransferReceived):
            back.settle(event.delivery_id, event.delivery_id, Modified(True), settled=False)
    exchange()
    away.detach()
    client.close()
    exchange()
    assert server.engine.is_over
    assert client.is_over
    return told, server.told


def whole(data: bytes) -> list[bytes]:
    """Do not cut."""
    return [data]


def test_messages_go_there_and_back_and_are_settled_on_both_ways() -> None:
    messages = [b"", b"small", b"x" * 5000]
    told, server_told = talk(messages, whole)
    assert [e.payload for e in told if isinstance(e, TransferReceived)] == messages
    accepted = [e for e in told if isinstance(e, DispositionReceived)]
    assert [e.state for e in accepted] == [Accepted()] * 3
    answers = [e for e in told if isinstance(e, SenderDispositionReceived)]
    assert [(e.state, e.settled) for e in answers] == [(Modified(True), True)]
    assert answers[0].last_id - answers[0].first_id == 2
    modified = [e for e in server_told if isinstance(e, DispositionReceived)]
    assert sum(len(e.deliveries) for e in modified) == 3


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 1000])
def test_reads_of_any_size_tell_the_same(size: int) -> None:
    def cut(data: bytes) -> list[bytes]:
        return [data[at : at + size] for at in range(0, len(data), size)]

    messages = [b"", b"small", b"x" * 2000]
    assert _retold(talk(messages, cut)) == _retold(talk(messages, whole))


@given(data=st.data(), messages=st.lists(st.binary(max_size=1500), max_size=3))
def test_any_cut_of_the_stream_tells_the_same(data: Any, messages: list[bytes]) -> None:
    def cut(stream: bytes) -> list[bytes]:
        places = data.draw(st.lists(st.integers(0, len(stream)), max_size=5))
        edges = [0, *sorted(places), len(stream)]
        return [stream[a:b] for a, b in pairwise(edges)]

    assert _retold(talk(messages, cut)) == _retold(talk(messages, whole))


def _retold(told: tuple[list[Event], list[Event]]) -> Any:
    """Leave out how sender dispositions and settlements were grouped, which cuts may change."""
    return [
        [line for line in retell(side) if line[0] != "SenderDispositionReceived"] for side in told
    ]
