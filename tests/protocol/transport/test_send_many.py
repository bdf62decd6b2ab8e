"""Sending many deliveries at once says the same as sending each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bendybus.amqp.connection import AmqpConnection
from bendybus.amqp.connection_settings import ConnectionSettings, Role
from bendybus.amqp.events import (
    AttachReceived,
    OpenReceived,
    SaslInitReceived,
    TransferReceived,
)
from bendybus.amqp.session import AmqpLink, LinkRole
from bendybus.amqp.terminus import Source, Target

FRAME_SIZE = 600


def _exchange(one: AmqpConnection, other: AmqpConnection) -> list[object]:
    events: list[object] = []
    while True:
        there, back = one.data_to_send(), other.data_to_send()
        if not there and not back:
            return events
        for event in other.receive_data(there) if there else []:
            events.append(event)
            _answer(other, event)
        for event in one.receive_data(back) if back else []:
            events.append(event)
            _answer(one, event)


def _answer(connection: AmqpConnection, event: object) -> None:
    if isinstance(event, SaslInitReceived):
        connection.sasl_outcome(ok=True)
    elif isinstance(event, OpenReceived):
        connection.open()


def _sender(credit: int) -> tuple[AmqpLink, AmqpConnection, AmqpConnection]:
    """Return a server's sending link, with the server and its client."""
    client = AmqpConnection(
        ConnectionSettings(container_id="c", frame_size_max=FRAME_SIZE), Role.CLIENT
    )
    server = AmqpConnection(ConnectionSettings(container_id="s"))
    client.open()
    _exchange(client, server)
    session = client.begin()
    taker = session.attach(
        "l", LinkRole.RECEIVER, source=Source(address="q"), target=Target(address="t")
    )
    [attached] = [e for e in _exchange(client, server) if isinstance(e, AttachReceived)][:1]
    attached.link.accept_attach()
    _exchange(client, server)
    taker.grant(credit)
    _exchange(client, server)
    return attached.link, server, client


@pytest.mark.amqp("2.7.5")
@given(
    sizes=st.lists(st.integers(0, 2 * FRAME_SIZE), max_size=12),
    credit=st.integers(0, 15),
    settled=st.booleans(),
)
def test_many_deliveries_are_sent_as_each_would_be(
    sizes: list[int], credit: int, settled: bool
) -> None:
    deliveries: list[tuple[bytes, bytes, object]] = [
        (bytes([at]) * size, bytes([at]) * 16, at) for at, size in enumerate(sizes)
    ]
    together, server, client = _sender(credit)
    sent = together.send_many(deliveries, settled=settled)
    got = [event for event in _exchange(client, server) if isinstance(event, TransferReceived)]

    alone, other_server, other_client = _sender(credit)
    for payload, tag, parcel in deliveries[:sent]:
        alone.send(payload, tag, settled=settled, parcel=parcel)
    expected = [
        event
        for event in _exchange(other_client, other_server)
        if isinstance(event, TransferReceived)
    ]

    assert sent == min(len(sizes), credit)
    assert [(e.delivery_id, e.delivery_tag, e.payload, e.settled) for e in got] == [
        (e.delivery_id, e.delivery_tag, e.payload, e.settled) for e in expected
    ]
    assert [each.parcel for each in together.session.unsettled.values()] == [
        each.parcel for each in alone.session.unsettled.values()
    ]
    assert together.credit == alone.credit
