"""Clients that take without reading, send without end, or attach without measure.

Each costs bounded memory, and others are served as if it were not there. Asserted on what the
broker holds, not on time.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.performatives import Attach, Begin, Detach, End, Source
from bendybus.amqp.values import Symbol
from bendybus.broker.receive import ACQUIRE_BYTES_MAX
from bendybus.server import outlet
from bendybus.server import requests as requests_module
from bendybus.server.connection import UNPROVEN_UNFINISHED_BYTES_MAX, ClientConnection
from bendybus.server.fragment_turns import TURNS_MAX
from bendybus.server.outlet import UNSENT_BYTES_MAX, UNSTORED_BYTES_MAX
from bendybus.testing.wire_client import WAIT_SECONDS, WireClient, WireLink, frame, sending
from tests.protocol.messaging.requesting import request, requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import ROOT_LOGIN, Served, stalled

# What one turn may add before it is noticed that the client does not read.
SLACK_BYTES = 1024 * 1024
# Lives in the second store, while "orders" lives in the first.
OTHER = "spare"


async def _until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)


async def _deaf_client(served: Served) -> tuple[WireClient, ClientConnection]:
    """Connect a client whose kernel takes hardly anything, and find the broker's end of it."""
    before = set(served.listener.connections)
    client = await served.stranger(receive_bytes=4096)
    await client.log_in("PLAIN", ROOT_LOGIN)
    await client.begin()
    [connection] = set(served.listener.connections) - before
    return client, connection


def _is_at_least(figure: Callable[[], int], bound: int) -> bool:
    return figure() >= bound


def _unsent(connection: ClientConnection) -> int:
    return connection.outlet.transport.get_write_buffer_size()


async def _pour(client: WireClient, connection: ClientConnection, data: bytes) -> None:
    """Write until the broker has read all of it or has stopped reading."""
    client.write(data)
    transport = client._writer.transport
    await _until(
        lambda: (
            transport.get_write_buffer_size() == 0 or not connection.outlet.transport.is_reading()
        )
    )


async def _filled(served: Served, count: int, size: int) -> WireLink:
    sender = await (await served.client()).sender("orders")
    for number in range(count):
        assert await sender.sent(message(b"x" * size), number) == Accepted()
    return sender


# A client that never reads


@pytest.mark.spec("R3.2")
async def test_a_client_that_never_reads_is_handed_no_more_than_a_bound(served: Served) -> None:
    count, size = 60, 200_000
    await _filled(served, count, size)
    client, connection = await _deaf_client(served)
    greedy = await client.receiver("orders")

    greedy.flow(link_credit=10_000)
    await _until(lambda: connection.outlet.is_blocked)
    other = await (await served.client()).receiver("orders")
    other.flow(link_credit=10)
    bodies = [see((await other.receive()).payload).body for _ in range(10)]

    assert bodies == [b"x" * size] * 10
    assert _unsent(connection) <= UNSENT_BYTES_MAX + ACQUIRE_BYTES_MAX + SLACK_BYTES


@pytest.mark.spec("R3.2")
async def test_what_a_client_that_never_read_was_not_sent_is_free_when_it_goes(
    served: Served,
) -> None:
    count = 60
    await _filled(served, count, 200_000)
    client, connection = await _deaf_client(served)
    greedy = await client.receiver("orders")
    greedy.flow(link_credit=10_000)
    await _until(lambda: connection.outlet.is_blocked)
    [session] = {link.session for link in connection._links}
    handed = len(session.unsettled)

    client.hang_up()
    other = await (await served.client()).receiver("orders")
    other.flow(link_credit=count)
    again = [see((await other.receive()).payload) for _ in range(count - handed)]

    assert handed < count
    assert {each.delivery_count for each in again} == {0}


async def test_answers_to_a_client_that_never_reads_are_bounded(served: Served) -> None:
    client, connection = await _deaf_client(served)
    large: dict[object, object] = {Symbol("x"): "x" * 50_000}
    echoed = Source(address="client", dynamic_node_properties=large)

    await _pour(
        client,
        connection,
        b"".join(
            frame(sending("orders", handle=handle, name=str(handle), source=echoed))
            for handle in range(300)
        ),
    )

    assert _unsent(connection) <= UNSENT_BYTES_MAX + SLACK_BYTES


async def test_responses_to_a_client_that_never_reads_are_bounded(served: Served) -> None:
    await _filled(served, 1, 200_000)
    client, connection = await _deaf_client(served)
    requests = await requests_to(client, "orders/$management")
    peek = request("com.microsoft:peek-message", {"message-count": 1})
    for number in range(60):
        requests.to_node.send(peek, number)

    await _pour(client, connection, b"")
    # A second reader sees the broker done with all that it is going to do for the first.
    polite = await requests_to(await served.client(), "orders/$management")
    for _ in range(60):
        await polite.ask("com.microsoft:peek-message", {"message-count": 1})

    assert _unsent(connection) <= UNSENT_BYTES_MAX + SLACK_BYTES


@pytest.mark.parametrize("ending", ["taken", "detached"])
async def test_responses_that_nobody_takes_are_bounded_over_all_links(
    served: Served, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "RESPONSES_BYTES_MAX", 300_000)
    await _filled(served, 1, 200_000)
    client = await served.client()
    asking, waiting = await _request_links(client, "orders", 2)
    others, _ = await _request_links(client, OTHER, 4)
    peek = request("com.microsoft:peek-message", {})
    for number in range(2):
        assert await asking.sent(peek, number) == Accepted()

    refused = await others.sent(peek, 2)

    assert isinstance(refused, Rejected)
    assert refused.error is not None
    assert refused.error.condition == "com.microsoft:server-busy"
    if ending == "taken":
        waiting.flow(link_credit=1)
        await waiting.receive()
    else:
        client.say(Detach(handle=waiting.handle, closed=True))
        await waiting.detached()
    assert await others.sent(peek, 3) == Accepted()


async def _request_links(client: WireClient, queue: str, handle: int) -> tuple[WireLink, WireLink]:
    """Attach links for requests and for responses, and give no credit for those."""
    node = f"{queue}/$management"
    return (
        await client.sender(node, handle=handle),
        await client.receiver(node, handle=handle + 1),
    )


async def test_a_client_that_reads_again_gets_everything(served: Served) -> None:
    # More than kernels put away for a sender: 4 MB, where it may grow to that.
    count = 80
    await _filled(served, count, 100_000)
    client, connection = await _deaf_client(served)
    greedy = await client.receiver("orders", settled=True)
    greedy.flow(link_credit=count)
    await _until(lambda: connection.outlet.is_blocked)
    own_end = client._writer.get_extra_info("socket")
    own_end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    sequences = [see((await greedy.receive()).payload).sequence for _ in range(count)]

    assert sequences == list(range(1, count + 1))


# A client that sends faster than the disk


async def test_while_a_store_is_slow_no_more_is_read_than_a_bound(served: Served) -> None:
    client, connection = await _deaf_client(served)
    sender = await client.sender("orders")
    other = await (await served.client()).sender(OTHER)
    places = [served.queue(name).main.sources[0].store for name in ("orders", OTHER)]
    assert places == served.broker.stores, "the queues must live in different stores"
    size, count = 50_000, 600
    async with stalled(served.broker.stores[0]):
        for number in range(count):
            sender.send(message(b"x" * size), number)
        await _until(lambda: not connection.outlet.transport.is_reading())
        unstored = connection.outlet._unstored_bytes
        assert await other.sent(message(), 0) == Accepted()

    assert UNSTORED_BYTES_MAX < unstored <= UNSTORED_BYTES_MAX + SLACK_BYTES
    for number in range(count):
        assert await client.outcome(0, number, receiver=True) == Accepted()
    assert await served.count("orders") == count
    assert connection.outlet._unstored_bytes == 0


@pytest.mark.parametrize("node", ["orders", "orders/$management"])
async def test_deliveries_of_nothing_have_a_bound_as_well(
    served: Served, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 100
    monkeypatch.setattr(outlet, "UNSTORED_BYTES_MAX", bound * outlet.DELIVERY_BYTES)
    client, connection = await _deaf_client(served)
    if node == "orders":
        first, sender = message(), await client.sender(node)
    else:
        first = request("com.microsoft:peek-message", {"message-count": 1})
        sender = (await requests_to(client, node)).to_node

    def unstored() -> int:
        return connection.outlet._unstored_bytes

    async with stalled(served.broker.stores[0]):
        # As many as are stored side by side, each read by itself; what follows has to wait.
        for number in range(TURNS_MAX):
            sender.send(first, number)
            await _until(partial(_is_at_least, unstored, (number + 1) * len(first)))
        for number in range(TURNS_MAX, 10 * bound):
            sender.send(b"", number)
        await _until(lambda: not connection.outlet.transport.is_reading())

    await _until(lambda: unstored() == 0)


async def test_a_client_that_proved_nothing_cannot_leave_much_half_said(served: Served) -> None:
    client = await served.stranger()
    await client.log_in()
    await client.begin()
    size = 60_000
    for handle in range(1 + UNPROVEN_UNFINISHED_BYTES_MAX // size):
        node = await client.sender("$cbs", handle=handle)
        node.send(bytes(size), handle, more=True)

    ended = (await client.hear(End)).body

    assert ended.error is not None
    assert ended.error.condition == "amqp:resource-limit-exceeded"


# A store that is slow to answer


@pytest.mark.spec("R3.1")
async def test_a_slow_store_does_not_hold_up_what_the_others_have(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("parts")
    for number in range(16):
        assert await sender.sent(message(), number) == Accepted()
    receivers = [await client.receiver("parts", handle=handle) for handle in range(1, 5)]
    async with stalled(served.broker.stores[0]):
        for receiver in receivers:
            receiver.flow(link_credit=1)

        fragments = [see((await each.receive()).payload).sequence >> 48 for each in receivers]

    sources = served.queue("parts").main.sources
    assert all(sources[each].store is served.broker.stores[1] for each in fragments)


# Things that change while a store is asked


async def test_credit_that_is_taken_back_while_a_store_is_asked_loses_nothing(
    served: Served,
) -> None:
    await _filled(served, 3, 10)
    client = await served.client()
    receiver = await client.receiver("orders")
    async with stalled(served.broker.stores[0]):
        receiver.flow(link_credit=3)
        receiver.flow(link_credit=3, echo=True)
        await receiver.flowed()
        receiver.flow(link_credit=1, echo=True)
        await receiver.flowed()

    first = await receiver.receive()
    receiver.flow(link_credit=0, echo=True)
    await receiver.flowed()
    receiver.flow(link_credit=2)
    rest = [await receiver.receive() for _ in range(2)]

    assert [see(each.payload).sequence for each in (first, *rest)] == [1, 2, 3]


@pytest.mark.spec("R3.2")
@pytest.mark.parametrize("ending", ["detach", "hang up"])
async def test_a_client_that_goes_while_a_store_is_asked_leaves_no_locks(
    served: Served, ending: str
) -> None:
    await _filled(served, 3, 10)
    client, connection = await _deaf_client(served)
    receiver = await client.receiver("orders")
    async with stalled(served.broker.stores[0]):
        receiver.flow(link_credit=3, echo=True)
        await receiver.flowed()
        if ending == "detach":
            client.say(Detach(handle=receiver.handle, closed=True))
            await receiver.detached()
        else:
            client.hang_up()
            await _until(lambda: connection not in served.listener.connections)

    other = await (await served.client()).receiver("orders")
    other.flow(link_credit=3)
    seen = [see((await other.receive()).payload) for _ in range(3)]
    assert [(each.sequence, each.delivery_count) for each in seen] == [(1, 0), (2, 0), (3, 0)]


async def test_what_was_sent_before_a_client_goes_is_stored(served: Served) -> None:
    client, connection = await _deaf_client(served)
    sender = await client.sender("orders")
    async with stalled(served.broker.stores[0]):
        for number in range(10):
            sender.send(message(), number)
        await _until(lambda: connection.outlet._unstored_bytes > 0)
        client.hang_up()
        await _until(lambda: connection not in served.listener.connections)

    receiver = await (await served.client()).receiver("orders")
    receiver.flow(link_credit=10)
    assert [see((await receiver.receive()).payload).sequence for _ in range(1)] == [1]


# Links without measure


async def test_ten_thousand_links_on_one_connection_are_refused_past_the_limit_one_by_one(
    served: Served,
) -> None:
    client = await served.client()
    [connection] = served.listener.connections
    limit = connection._amqp.settings.link_count_max
    per_session, total, refused = 2_000, 10_000, 0
    for channel in range(1, 1 + total // per_session):
        await client.begin(channel)
        client.write(
            b"".join(
                frame(sending("orders", handle=handle, name=f"{channel}-{handle}"), channel)
                for handle in range(per_session)
            )
        )
        for _ in range(per_session):
            answer = (await client.hear(Attach)).body
            if answer.target is None:
                refused += 1
                handle = int(answer.name.partition("-")[2])
                client.say(Detach(handle=handle, closed=True), channel=channel)

    error = (await client.hear(Detach)).body.error
    assert refused == total - limit
    assert error is not None
    assert error.condition == "amqp:resource-limit-exceeded"
    assert str(limit) in str(error.description)
    assert len(connection._links) == limit
    other = await (await served.client()).sender("orders")
    assert await other.sent(message(), 0) == Accepted()


@pytest.mark.amqp("2.7.2")
async def test_a_handle_beyond_the_limit_of_its_session_closes_the_connection(
    served: Served,
) -> None:
    client = await served.client()

    client.say(sending("orders", handle=4_000_000_000))

    with pytest.raises(ConnectionResetError):
        await client.hear(Attach)


@pytest.mark.amqp("2.7.1")
async def test_a_channel_beyond_the_limit_closes_the_connection(served: Served) -> None:
    client = await served.client()

    client.say(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1), channel=5_000)

    with pytest.raises(ConnectionResetError):
        await client.hear(Begin)


async def test_every_link_of_a_lost_connection_is_forgotten(served: Served) -> None:
    client = await served.client()
    [connection] = served.listener.connections
    for handle in range(20):
        link = await client.receiver("orders", handle=handle)
        link.flow(link_credit=1)

    client.hang_up()
    await _until(lambda: not served.listener.connections)
    await _until(lambda: not connection.outlet._tasks)

    assert connection._links == {}
    assert served.queue("orders").main.waiting._waiters == {}
