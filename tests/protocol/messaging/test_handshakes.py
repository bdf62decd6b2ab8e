"""How each official client begins, frame by frame."""

import uuid

import pytest

from bendybus.amqp.frames import AMQP_HEADER, SASL_HEADER, encode_sasl_frame
from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import (
    Attach,
    Begin,
    Coordinator,
    Flow,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
)
from bendybus.amqp.values import Described, Int, Symbol, Timestamp, Ubyte, Uint, Ulong
from bendybus.testing.wire_client import frame, receiving, sending
from tests.protocol.messaging.requesting import request, requests_to, token_for
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served

_UNLIMITED = 2**64 - 1


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("5.3.3.1")
async def test_mechanisms_are_offered_in_the_order_of_the_service(served: Served) -> None:
    client = await served.stranger()
    client.write(SASL_HEADER)

    offered = (await client.hear(SaslMechanisms)).body.mechanisms

    assert offered == ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize("mechanism", ["MSSBCBS", "ANONYMOUS", "EXTERNAL"])
async def test_mechanisms_without_secrets_let_anybody_in(served: Served, mechanism: str) -> None:
    client = await served.stranger()

    answer = await client.log_in(mechanism, b"any trace text")

    assert (answer.max_frame_size, answer.channel_max, answer.idle_time_out) == (
        65536,
        4999,
        120_000,
    )


@pytest.mark.spec("R8.1")
async def test_a_client_may_leave_sasl_out(served: Served) -> None:
    client = await served.stranger()
    client.write(AMQP_HEADER + frame(Open(container_id="plain")))

    await client.hear(Open)

    assert client.headers == [AMQP_HEADER]


@pytest.mark.spec("R8.1")
async def test_everything_up_to_the_token_links_may_come_in_one_segment(served: Served) -> None:
    client = await served.stranger()
    client.write(
        SASL_HEADER
        + encode_sasl_frame(SaslInit("ANONYMOUS", b"", "localhost"))
        + AMQP_HEADER
        + frame(Open(container_id="SBSender-1"))
        + frame(Begin(next_outgoing_id=0, incoming_window=65536, outgoing_window=65536), 1)
        + frame(sending("$cbs", handle=1, name="cbs-sender"), 1)
        + frame(receiving("$cbs", handle=2, name="cbs-receiver"), 1)
    )

    assert (await client.hear(SaslOutcome)).body.code == 0
    assert (await client.hear(Begin)).body.remote_channel == 1
    assert [(await client.hear(Attach)).body.name for _ in range(2)] == [
        "cbs-sender",
        "cbs-receiver",
    ]
    assert client.headers == [SASL_HEADER, AMQP_HEADER]


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    ("kind", "count"), [(Open, 10), (Begin, 8), (Attach, 14), (Flow, 11), (SaslOutcome, 2)]
)
async def test_performatives_have_all_their_fields(served: Served, kind: type, count: int) -> None:
    client = await served.stranger()
    client.write(
        SASL_HEADER
        + encode_sasl_frame(SaslInit("ANONYMOUS", b"", None))
        + AMQP_HEADER
        + frame(Open(container_id="old pyamqp"))
        + frame(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))
        + frame(sending("$cbs"))
    )

    assert (await client.hear(kind)).field_count == count


@pytest.mark.spec("R8.1")
async def test_python_puts_a_token_without_reply_to_and_calls_it_a_jwt(served: Served) -> None:
    client = await served.stranger()
    await client.log_in()
    await client.begin(1)
    requests = await requests_to(client, "$cbs", channel=1, handle=1)
    message_id = uuid.uuid4()
    audience = "sb://localhost:5672/orders"
    payload = request(
        "put-token",
        token_for(audience),
        message_id=message_id,
        type="jwt",
        name=audience,
        expiration=Timestamp(1_800_003_600_000),
    )

    requests.to_node.send(payload, 0)
    response = await requests.answered()

    assert response.correlation_id == message_id
    assert type(response.correlation_id) is uuid.UUID
    assert response.properties["status-code"] == 202
    assert type(response.properties["status-code"]) is Int
    link = await client.sender("amqps://localhost:5672/orders", channel=1, handle=3)
    assert link.answer.target == Target(address="amqps://localhost:5672/orders")


@pytest.mark.spec("R8.1")
async def test_dot_net_has_one_session_per_link_and_puts_its_token_settled(served: Served) -> None:
    client = await served.stranger()
    await client.log_in("MSSBCBS", b"", max_frame_size=65536, idle_time_out=60000)
    for channel in (0, 1, 2):
        await client.begin(channel)
    to_cbs = await client.attach(sending("$cbs", handle=0, snd_settle_mode=1))
    from_cbs = await client.attach(
        receiving("$cbs", handle=1, target=Target(address="reply-1"), settled=True)
    )
    from_cbs.flow(link_credit=50)
    audience = "amqps://localhost/depot/Spare-Parts"

    to_cbs.send(
        request(
            "put-token",
            token_for(audience),
            message_id="1",
            reply_to="reply-1",
            type="servicebus.windows.net:sastoken",
            name=audience,
        ),
        0,
        settled=True,
    )
    response = await from_cbs.receive()

    assert response.settled
    assert see(response.payload).application_properties["status-code"] == 202
    assert client.outcomes_heard() == []
    sender = await client.attach(
        sending(
            "/depot%2FSpare-Parts",
            handle=0,
            properties={
                Symbol("com.microsoft:timeout"): Uint(60000),
                Symbol("com.microsoft:entity-type"): Int(0),
            },
        ),
        channel=1,
    )
    receiver = await client.attach(receiving("/depot/spare-parts", handle=0), channel=2)
    assert sender.answer.target == Target(address="/depot%2FSpare-Parts")
    assert await sender.sent(message(b"from .NET"), 0) == Accepted()
    receiver.flow(link_credit=1)
    assert see((await receiver.receive()).payload).body == b"from .NET"


@pytest.mark.spec("R8.1")
async def test_java_asks_with_a_ulong_and_is_answered_with_one(served: Served) -> None:
    client = await served.stranger()
    await client.log_in()
    await client.begin()
    to_cbs = await client.attach(sending("$cbs", handle=0))
    from_cbs = await client.attach(receiving("$cbs", target=Target(address="cbs")))
    from_cbs.flow(link_credit=1)
    audience = "amqp://localhost/orders"

    to_cbs.send(
        request(
            "put-token",
            token_for(audience),
            message_id=Ulong(7),
            reply_to="cbs",
            type="servicebus.windows.net:sastoken",
            name=audience,
        ),
        0,
    )
    response = see((await from_cbs.receive()).payload)

    assert response.properties[5] == 7
    assert type(response.properties[5]) is Ulong


@pytest.mark.spec("R8.1")
async def test_java_gets_a_coordinator_for_a_target(served: Served) -> None:
    client = await served.client()

    link = await client.attach(
        sending("", name="coordinator", target=Coordinator(("amqp:local-transactions",)))
    )

    assert isinstance(link.answer.target, Coordinator)
    assert "amqp:local-transactions" in (link.answer.target.capabilities or ())
    assert (await link.flowed()).link_credit


@pytest.mark.spec("R8.1")
async def test_go_gets_its_settle_modes_back(served: Served) -> None:
    client = await served.client()

    link = await client.attach(
        receiving("orders", snd_settle_mode=Ubyte(2), rcv_settle_mode=Ubyte(1))
    )
    sender = await client.attach(
        sending("orders", snd_settle_mode=Ubyte(2), source=Source(address=None))
    )

    assert (link.answer.snd_settle_mode, link.answer.rcv_settle_mode) == (2, 1)
    assert (sender.answer.snd_settle_mode, sender.answer.rcv_settle_mode) == (2, 0)
    assert await sender.sent(message(b"mixed"), 0) == Accepted()
    link.flow(link_credit=1)
    assert not (await link.receive()).settled


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("an-id", id="bare"),
        pytest.param(Described(Ulong(0x137000000C), "an-id"), id="described, as Go sends it"),
        pytest.param(None, id="next available"),
    ],
)
async def test_a_session_filter_on_a_queue_without_sessions_is_not_allowed(
    served: Served, value: object
) -> None:
    client = await served.client()
    source = Source(address="orders", filter={Symbol("com.microsoft:session-filter"): value})

    link = await client.attach(receiving("orders", source=source))

    detach = await link.detached()
    assert detach.error is not None
    assert detach.error.condition == "amqp:not-allowed"
    assert "does not require sessions" in str(detach.error.description)


@pytest.mark.spec("R8.1")
async def test_filters_capabilities_and_properties_nobody_knows_are_ignored(
    served: Served,
) -> None:
    client = await served.client()
    source = Source(
        address="orders",
        filter={Symbol("acme:filter"): Described(Symbol("acme:filter"), "x")},
        capabilities=(Symbol("acme"),),
    )

    link = await client.attach(
        receiving("orders", source=source, properties={Symbol("acme:option"): "x"})
    )

    assert link.answer.source is not None


@pytest.mark.spec("R8.1")
async def test_javascript_names_its_response_link_in_reply_to(served: Served) -> None:
    client = await served.stranger()
    await client.log_in(idle_time_out=60000)
    await client.begin(0)
    await client.begin(1)
    to_cbs = await client.attach(sending("$cbs", source=Source(address="cbs-77")))
    from_cbs = await client.attach(
        receiving("$cbs", name="cbs-77", target=Target(address=None)), channel=1
    )
    from_cbs.flow(link_credit=1)
    audience = "sb://localhost/orders/$management"

    to_cbs.send(
        request(
            "put-token",
            token_for(audience),
            message_id="d3adbeef",
            reply_to="cbs-77",
            type="servicebus.windows.net:sastoken",
            name=audience,
        ),
        0,
    )
    response = see((await from_cbs.receive()).payload)

    assert response.properties[5] == "d3adbeef"
    assert type(response.properties[5]) is str
    assert (await client.receiver("orders", handle=4)).answer.source is not None


@pytest.mark.spec("R8.1")
async def test_request_links_take_messages_of_any_size_and_a_hundred_at_once(
    served: Served,
) -> None:
    client = await served.client()

    link = await client.sender("orders/$management")

    assert link.answer.max_message_size == _UNLIMITED
    assert (await link.flowed()).link_credit == 100
