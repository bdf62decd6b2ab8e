"""Attaching, refusing, credit and draining."""

from typing import Any

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Detach, Disposition, Flow, Source, Target, Transfer
from bendybus.amqp.values import Symbol, Ulong
from bendybus.model.ids import SubQueue
from bendybus.testing.wire_client import WireClient, receiving, sending
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served, stalled

_UNLIMITED = 2**64 - 1


async def _filled(client: WireClient, count: int, address: str = "orders") -> None:
    sender = await client.sender(address, handle=90)
    for number in range(count):
        sender.send(message(b"%d" % number), number)
    for number in range(count):
        assert await sender.client.outcome(0, number, receiver=True) == Accepted()


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("2.6.3")
async def test_a_sender_gets_its_attach_back_with_limits_and_credit(served: Served) -> None:
    client = await served.client()
    source, target = Source(address="sender-link-1"), Target(address="amqps://localhost/ORDERS")

    link = await client.attach(
        sending("", name="mine", source=source, target=target, rcv_settle_mode=1)
    )

    answer = link.answer
    assert (answer.name, answer.role) == ("mine", True)
    assert (answer.source, answer.target) == (source, target)
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (0, 1)
    assert answer.max_message_size == 256 * 1024
    assert answer.properties == {Symbol("com.microsoft:max-message-batch-size"): Ulong(256 * 1024)}
    credit = await link.flowed()
    assert credit.delivery_count == 0
    assert credit.link_credit is not None
    assert credit.link_credit >= 1000
    assert credit.next_incoming_id is not None


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("2.6.3")
async def test_a_receiver_gets_its_attach_back_with_a_first_delivery_count(served: Served) -> None:
    client = await served.client()
    source, target = Source(address="amqps://localhost/orders"), Target(address=None)

    link = await client.attach(receiving("", name="mine", source=source, target=target))

    answer = link.answer
    assert (answer.name, answer.role) == ("mine", False)
    assert (answer.source, answer.target) == (source, target)
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (0, 1)
    assert answer.initial_delivery_count == 0
    assert answer.max_message_size == _UNLIMITED


@pytest.mark.spec("R8.1")
@pytest.mark.amqp("2.6.3")
@pytest.mark.parametrize(
    ("attach", "condition", "words"),
    [
        (sending("nowhere"), "amqp:not-found", "The messaging entity 'sb://sbemulatorns/nowhere'"),
        (receiving("nowhere"), "amqp:not-found", "could not be found"),
        (sending("orders/$management/x"), "amqp:not-found", "could not be found"),
        (
            receiving("orders/Subscriptions/all"),
            "amqp:not-found",
            "'sbemulatorns:Topic:orders|all' could not be found",
        ),
        (sending(None), "com.microsoft:argument-error", "no address"),
        (sending("x" * 3000), "com.microsoft:argument-error", "too long"),
        (sending("", target=None), "com.microsoft:argument-error", "no target"),
        (receiving("", source=None), "com.microsoft:argument-error", "no source"),
        (sending("orders/$DeadLetterQueue"), "amqp:not-allowed", "dead-letter queue"),
        (sending("no-sends"), "com.microsoft:entity-disabled", "disabled for sending"),
        (sending("off"), "com.microsoft:entity-disabled", "disabled for sending"),
        (receiving("no-receives"), "com.microsoft:entity-disabled", "disabled for receiving"),
        (receiving("off"), "com.microsoft:entity-disabled", "disabled for receiving"),
        (receiving("sessions"), "amqp:not-allowed", "non-sessionful message receiver"),
        (receiving("nowhere/$management"), "amqp:not-found", "could not be found"),
        (sending("nowhere/$management"), "amqp:not-found", "could not be found"),
    ],
)
async def test_a_refused_link_is_answered_and_detached_in_one_write(
    served: Served, attach: Any, condition: str, words: str
) -> None:
    client = await served.client()

    link = await client.attach(attach)
    assert (link.answer.source, link.answer.target) == (None, None)
    detach = await client.hear(Detach)

    assert detach.body.error is not None
    assert detach.body.error.condition == condition
    assert words in str(detach.body.error.description)
    assert "TrackingId:" in str(detach.body.error.description)
    assert detach.body.closed
    assert detach.read == link.answered.read
    assert detach.field_count == 3


@pytest.mark.spec("R4")
async def test_a_disabled_direction_leaves_the_other_open(served: Served) -> None:
    client = await served.client()

    sender = await client.sender("no-receives", handle=2)
    await client.receiver("no-sends", handle=3)

    assert await sender.sent(message(), 0) == Accepted()


@pytest.mark.spec("R1.1")
async def test_every_queue_has_two_dead_letter_queues_whatever_the_case_of_their_names(
    served: Served,
) -> None:
    client = await served.client()

    await client.receiver("ORDERS/$deadletterqueue", handle=2)
    await client.receiver("orders/$Transfer/$DeadLetterQueue", handle=3)


@pytest.mark.amqp("2.6.4")
@pytest.mark.parametrize("closed", [True, False])
async def test_a_detach_is_answered_with_the_same_kind_of_detach(
    served: Served, closed: bool
) -> None:
    client = await served.client()
    link = await client.receiver("orders")

    client.say(Detach(handle=link.handle, closed=closed))

    answer = await link.detached()
    assert (answer.closed, answer.error) == (closed, None)


@pytest.mark.spec("R4")
async def test_a_lock_outlives_the_link_it_was_given_on(served: Served) -> None:
    client = await served.client()
    await _filled(client, 1)
    link = await client.receiver("orders")
    link.flow(link_credit=1)
    await link.receive()

    client.say(Detach(handle=link.handle, closed=True))
    await link.detached()
    other = await client.receiver("orders", handle=2)
    other.flow(link_credit=1)
    other.flow(link_credit=1, drain=True)

    assert (await other.flowed()).delivery_count == 1
    assert client.unheard(Transfer) == []


# Credit


@pytest.mark.amqp("2.6.7")
async def test_no_more_is_delivered_than_there_is_credit_for(served: Served) -> None:
    client = await served.client()
    await _filled(client, 5)
    link = await client.receiver("orders")

    link.flow(link_credit=2)
    bodies = [see((await link.receive()).payload).body for _ in range(2)]
    link.flow(link_credit=0, echo=True)
    answer = await link.flowed()

    assert bodies == [b"0", b"1"]
    assert (answer.delivery_count, answer.link_credit) == (2, 0)
    assert client.unheard(Transfer) == []


@pytest.mark.amqp("2.6.7")
async def test_credit_counts_from_the_receivers_delivery_count(served: Served) -> None:
    client = await served.client()
    await _filled(client, 5)
    link = await client.receiver("orders")
    link.flow(link_credit=2)
    for _ in range(2):
        await link.receive()

    # Said before the second delivery was seen: of the two granted then, one is used already.
    link.flow(delivery_count=1, link_credit=2)

    assert see((await link.receive()).payload).body == b"2"
    link.flow(link_credit=0, echo=True)
    assert (await link.flowed()).delivery_count == 3
    assert client.unheard(Transfer) == []


@pytest.mark.amqp("2.6.7")
async def test_lowered_credit_holds_and_nothing_is_lost(served: Served) -> None:
    client = await served.client()
    link = await client.receiver("orders")
    link.flow(link_credit=100)
    link.flow(link_credit=1)
    await _filled(client, 3)

    first = await link.receive()
    link.flow(link_credit=0, echo=True)
    await link.flowed()
    assert client.unheard(Transfer) == []

    link.flow(link_credit=10)
    rest = [await link.receive() for _ in range(2)]
    assert [see(each.payload).body for each in (first, *rest)] == [b"0", b"1", b"2"]


@pytest.mark.spec("R3.3")
@pytest.mark.amqp("2.6.7")
async def test_what_was_taken_for_credit_that_went_away_comes_first_and_under_a_lock_that_lasts(
    served: Served,
) -> None:
    client = await served.client()
    await _filled(client, 3)
    link = await client.receiver("orders")
    async with stalled(*served.broker.stores):
        for credit in (2, 0):
            link.flow(link_credit=credit, echo=True)
            await link.flowed()
    await (await client.sender("orders", handle=91)).sent(message(b"3"), 3)

    served.clock.advance(LOCK_SECONDS - 1)
    link.flow(link_credit=4)

    seen = [see((await link.receive()).payload) for _ in range(4)]
    assert [each.body for each in seen] == [b"0", b"1", b"2", b"3"]
    until = served.clock.now() + LOCK_SECONDS * 1000
    assert {each.annotations["x-opt-locked-until"] for each in seen} == {until}
    assert {each.delivery_count for each in seen} == {0}


@pytest.mark.amqp("2.6.7")
async def test_a_drain_gives_what_there_is_and_then_the_rest_of_the_credit_back(
    served: Served,
) -> None:
    client = await served.client()
    await _filled(client, 2)
    link = await client.receiver("orders")

    link.flow(link_credit=10, drain=True)
    bodies = [see((await link.receive()).payload).body for _ in range(2)]
    answer = await link.flowed()

    assert bodies == [b"0", b"1"]
    assert (answer.drain, answer.link_credit, answer.delivery_count) == (True, 0, 10)


@pytest.mark.amqp("2.6.7")
async def test_a_drain_without_credit_is_answered_too(served: Served) -> None:
    client = await served.client()
    link = await client.receiver("orders")

    link.flow(link_credit=0, drain=True)
    answer = await link.flowed()

    assert (answer.drain, answer.link_credit, answer.delivery_count) == (True, 0, 0)


@pytest.mark.amqp("2.6.7")
async def test_after_a_drain_nothing_comes_without_new_credit(served: Served) -> None:
    client = await served.client()
    link = await client.receiver("orders")
    link.flow(link_credit=10)
    link.flow(link_credit=10, drain=True)
    await link.flowed()

    await _filled(client, 1)
    link.flow(delivery_count=10, link_credit=0, echo=True)
    await link.flowed()
    assert client.unheard(Transfer) == []

    link.flow(delivery_count=10, link_credit=1)
    assert see((await link.receive()).payload).body == b"0"


@pytest.mark.amqp("2.7.4")
async def test_an_echo_of_a_session_is_answered_with_its_windows(served: Served) -> None:
    client = await served.client()

    client.say(
        Flow(
            next_incoming_id=1,
            incoming_window=100,
            next_outgoing_id=0,
            outgoing_window=100,
            echo=True,
        )
    )
    answer = (await client.hear(Flow)).body

    assert answer.handle is None
    assert (answer.next_incoming_id, answer.next_outgoing_id) == (0, 1)
    assert answer.incoming_window > 0


@pytest.mark.amqp("2.5.6")
async def test_a_receivers_session_window_is_never_overrun(served: Served) -> None:
    client = await served.stranger()
    await client.log_in("PLAIN", b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE")
    await client.begin(0)
    await _filled(client, 5)
    await client.begin(1, incoming_window=2)
    link = await client.receiver("orders", channel=1)

    link.flow(link_credit=5, incoming_window=2)
    for _ in range(2):
        await link.receive()
    link.flow(link_credit=3, next_incoming_id=3, incoming_window=0, echo=True)
    assert (await link.flowed()).next_outgoing_id == 3
    assert client.unheard(Transfer) == []

    link.flow(link_credit=3, next_incoming_id=3, incoming_window=3)
    assert see((await link.receive()).payload).body == b"2"


@pytest.mark.amqp("2.5.6")
@pytest.mark.parametrize("is_of_a_link", [True, False])
async def test_a_window_that_opens_lets_every_link_of_its_session_go_on(
    served: Served, is_of_a_link: bool
) -> None:
    client = await served.client()
    await _filled(client, 2)
    await client.begin(1, incoming_window=1)
    first = await client.receiver("orders", channel=1, handle=1)
    second = await client.receiver("orders", channel=1, handle=2)
    first.flow(link_credit=1, incoming_window=1)
    await first.receive()
    second.flow(link_credit=1, next_incoming_id=2, incoming_window=0, echo=True)
    await second.flowed()

    handle = first.handle if is_of_a_link else None
    fields = {} if is_of_a_link else {"delivery_count": None}
    first.flow(handle=handle, next_incoming_id=2, incoming_window=1, **fields)

    assert see((await second.receive()).payload).body == b"1"


@pytest.mark.amqp("2.6.12")
async def test_who_decides_about_nothing_gets_no_more_than_a_session_may_hold(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bendybus.amqp.session.UNSETTLED_MAX", 2)
    client = await served.client()
    await _filled(client, 3)
    await client.begin(1)
    first = await client.receiver("orders", channel=1, handle=1)
    second = await client.receiver("orders", channel=1, handle=2)
    first.flow(link_credit=2)
    ids = [(await first.receive()).delivery_id for _ in range(2)]
    second.flow(link_credit=5, echo=True)
    await second.flowed()
    # What it cannot have is there for others.
    elsewhere = await served.client()
    other = await elsewhere.receiver("orders")
    other.flow(link_credit=1)
    assert see((await other.receive()).payload).body == b"2"
    await _filled(elsewhere, 1)

    client.say(Disposition(role=True, first=ids[0], settled=True, state=Accepted()), channel=1)

    assert see((await second.receive()).payload).body == b"0"


@pytest.mark.amqp("2.6.12")
async def test_delivery_ids_rise_by_one_and_are_far_from_the_clients_own(served: Served) -> None:
    client = await served.client()
    await _filled(client, 3)
    link = await client.receiver("orders")

    link.flow(link_credit=3)
    ids = [(await link.receive()).delivery_id for _ in range(3)]

    assert ids == [ids[0], ids[0] + 1, ids[0] + 2]
    assert ids[0] >= 0x40000000


@pytest.mark.spec("R3.1")
async def test_senders_that_ignore_credit_are_served_all_the_same(served: Served) -> None:
    """Pyamqp sends before it was given any, and as much as it likes."""
    client = await served.client()
    count = 5_100
    client.say(sending("orders"))
    for number in range(count):
        client.say(
            Transfer(handle=0, delivery_id=number, delivery_tag=b"tag", message_format=0),
            payload=message(),
        )

    for number in range(0, count, 100):
        assert await client.outcome(0, number, receiver=True) == Accepted()

    assert await client.outcome(0, count - 1, receiver=True) == Accepted()
    assert await served.count("orders") == count
    assert await served.count("orders", SubQueue.DEAD_LETTER) == 0


@pytest.mark.amqp("2.7.6")
async def test_dispositions_have_all_their_fields(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    sender.send(message(), 0)

    heard = await client.hear(Disposition)

    assert heard.field_count == 6
    assert (heard.body.role, heard.body.settled) == (True, True)
