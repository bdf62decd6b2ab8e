"""Sessions, frame by frame: the late answer to an Attach, the lock, and its end."""

import shutil
from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted, Modified, Rejected, Released
from bendybus.amqp.performatives import Attach, Close, Detach, End
from bendybus.amqp.terminus import Source
from bendybus.amqp.values import Described, Int, Long, Symbol, Uint
from bendybus.model.ids import SubQueue
from bendybus.testing.wire_client import WireLink, receiving
from tests.protocol.messaging.places import SESSION_PLACES
from tests.protocol.messaging.requesting import requests_to
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served, serving, stalled
from tests.protocol.messaging.session_links import (
    GO_DESCRIPTOR,
    LOCKED_UNTIL,
    SESSION_FILTER,
    TIMEOUT,
    asking,
    bodies,
    ended,
    granted,
    post,
    refusal,
    take,
)


@pytest.mark.spec("R8.1")
@SESSION_PLACES
@pytest.mark.parametrize(
    "value",
    [
        pytest.param("s", id="named"),
        pytest.param(None, id="next"),
        pytest.param(Described(GO_DESCRIPTOR, "s"), id="named, as Go sends it"),
        pytest.param(Described(GO_DESCRIPTOR, None), id="next, as Go sends it"),
    ],
)
async def test_the_answer_names_the_session_in_the_form_of_the_question(
    served: Served, queue: str, value: object
) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1")

    link = await client.attach(asking(queue, value))

    is_described = isinstance(value, Described)
    assert granted(link) == (Described(GO_DESCRIPTOR, "s") if is_described else "s")
    assert link.answer.properties is not None
    ticks = link.answer.properties[LOCKED_UNTIL]
    assert type(ticks) is Long
    until_ms = served.clock.now() + LOCK_SECONDS * 1000
    assert ticks == 621355968000000000 + until_ms * 10_000
    assert TIMEOUT not in link.answer.properties
    assert link.answer.initial_delivery_count == 0


@pytest.mark.spec("R3.6")
@SESSION_PLACES
async def test_a_session_is_delivered_in_order_also_after_an_abandon(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await post(client, queue, "s", *(b"%d" % number for number in range(5)))
    await post(client, queue, "other", b"x")
    link = await client.attach(asking(queue, "s"))

    [first, second] = await take(link, 2)
    link.settle(second, Accepted())
    await link.confirmed(second)
    link.settle(first, Modified(True, False, None))
    await link.confirmed(first)

    again = await take(link, 3)
    assert bodies(again) == [b"0", b"2", b"3"]
    assert [see(each.payload).delivery_count for each in again] == [1, 0, 0]
    annotations = see(again[0].payload).annotations
    until = served.clock.now() + LOCK_SECONDS * 1000
    assert annotations["x-opt-locked-until"] == until
    if queue == "session-parts":
        assert annotations["x-opt-partition-key"] == "s"


@SESSION_PLACES
async def test_what_was_taken_for_credit_that_went_away_does_not_overtake_an_abandoned_message(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await post(client, queue, "s", b"0", b"1", b"2")
    link = await client.attach(asking(queue, "s"))
    [first] = await take(link, 1)

    async with stalled(*served.broker.stores):
        link.flow(link_credit=2)
        link.flow(link_credit=0)
        link.settle(first, Modified(True, False, None))
        # All of that was read when another link is answered.
        await client.attach(receiving("orders", handle=5))
    await link.confirmed(first)

    assert bodies(await take(link, 3)) == [b"0", b"1", b"2"]


@SESSION_PLACES
async def test_asking_for_any_session_is_answered_when_there_is_one(
    served: Served, queue: str
) -> None:
    client = await served.client()
    client.say(asking(queue, None, handle=7, name="late"))
    other = await served.client()

    # The connection goes on meanwhile.
    await post(client, queue, "s", b"1")

    answer = await client.hear(Attach, lambda heard: heard.body.name == "late")
    link = WireLink(client, 0, asking(queue, None, handle=7, name="late"), answer)
    assert granted(link) == "s"
    assert bodies(await take(link, 1)) == [b"1"]
    assert (await refusal(await other.attach(asking(queue, "s"))))[0] == (
        "com.microsoft:session-cannot-be-locked"
    )


@SESSION_PLACES
async def test_credit_given_before_the_answer_counts(served: Served, queue: str) -> None:
    client = await served.client()
    attach = asking(queue, None, handle=7, name="late")
    client.say(attach)
    WireLink(client, 0, attach, None).flow(link_credit=2, delivery_count=None)  # type: ignore[arg-type]  # not answered yet

    await post(client, queue, "s", b"1", b"2")

    answer = await client.hear(Attach, lambda heard: heard.body.name == "late")
    link = WireLink(client, 0, attach, answer)
    assert [see((await link.receive()).payload).body for _ in range(2)] == [b"1", b"2"]


@SESSION_PLACES
async def test_asking_for_any_session_ends_when_the_time_of_the_client_is_up(
    served: Served, queue: str
) -> None:
    client = await served.client()

    link = await client.attach(asking(queue, None, properties={TIMEOUT: Uint(150)}))

    condition, text = await refusal(link)
    assert condition == "com.microsoft:timeout"
    assert text.startswith("The operation did not complete within the allotted timeout of 00:00:00")


@SESSION_PLACES
@pytest.mark.parametrize("how", ["detach", "end", "close", "hang up"])
async def test_who_goes_while_waiting_leaves_no_session_locked(
    served: Served, queue: str, how: str
) -> None:
    client, other = await served.client(), await served.client()
    client.say(asking(queue, None, name="late"))
    # Another link on the same connection answers only after the Attach was read.
    await client.attach(receiving("orders", handle=5))
    if how == "detach":
        client.say(Detach(handle=1, closed=True))
        answer = (await client.hear(Attach, lambda heard: heard.body.name == "late")).body
        assert answer.source is None
        await client.hear(Detach, lambda heard: heard.body.handle == answer.handle)
    elif how == "end":
        client.say(End())
        await client.hear(End)
    elif how == "close":
        client.say(Close())
        await client.until_closed()
    else:
        client.hang_up()

    await post(other, queue, "s", b"1")

    link = await other.attach(asking(queue, None, properties={TIMEOUT: Uint(10_000)}))
    assert granted(link) == "s"


@SESSION_PLACES
async def test_a_session_is_free_again_when_its_link_is_detached(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1", b"2")
    link = await client.attach(asking(queue, "s"))
    [first, _] = await take(link, 2)

    # What was said before the Detach still counts, and the session can be had at once.
    async with stalled(*served.broker.stores):
        link.settle(first, Rejected(None), settled=True)
        client.say(Detach(handle=1, closed=True), asking(queue, "t", handle=2))
        # All of that was read when another link is answered.
        await client.attach(receiving("orders", handle=5))
    await link.detached()
    again = await client.attach(asking(queue, "s", handle=3))

    [second] = await take(again, 1)
    assert (see(second.payload).body, see(second.payload).delivery_count) == (b"2", 0)
    assert await served.count(queue, SubQueue.DEAD_LETTER) == 1


@SESSION_PLACES
async def test_a_connection_that_dies_gives_its_session_back(served: Served, queue: str) -> None:
    client, other = await served.client(), await served.client()
    await post(client, queue, "s", b"1")
    link = await client.attach(asking(queue, "s"))
    await take(link, 1)

    client.hang_up()

    again = await other.attach(asking(queue, None, properties={TIMEOUT: Uint(10_000)}))
    [delivery] = await take(again, 1)
    assert (see(delivery.payload).body, see(delivery.payload).delivery_count) == (b"1", 0)


@SESSION_PLACES
async def test_a_broker_that_stops_gives_sessions_back_first(
    template: Path, tmp_path: Path, queue: str
) -> None:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    async with serving(tmp_path) as first:
        client = await first.client()
        await post(client, queue, "s", b"1")
        link = await client.attach(asking(queue, "s"))
        await take(link, 1)

    async with serving(tmp_path) as second:
        client = await second.client()
        again = await client.attach(asking(queue, "s"))
        [delivery] = await take(again, 1)
        assert see(delivery.payload).delivery_count == 0


@pytest.mark.spec("R3.3")
@SESSION_PLACES
async def test_when_its_lock_ends_the_link_is_detached_and_the_session_goes_on(
    served: Served, queue: str
) -> None:
    client, other = await served.client(), await served.client()
    await post(client, queue, "s", b"1")
    link = await client.attach(asking(queue, "s"))
    requests = await requests_to(client, f"{queue}/$management")
    [delivery] = await take(link, 1)

    served.clock.advance(LOCK_SECONDS)
    link.settle(delivery, Accepted())

    answer = await link.confirmed(delivery)
    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert answer.error.condition == "com.microsoft:session-lock-lost"
    condition, text = await ended(link)
    assert condition == "com.microsoft:session-lock-lost"
    assert "The session lock has expired on the MessageSession." in text
    response = await requests.ask("com.microsoft:renew-session-lock", {"session-id": "s"})
    assert response.status == 410
    assert response.properties["errorCondition"] == "com.microsoft:session-lock-lost"
    await served.broker.sweep.sweep_all()
    again = await other.attach(asking(queue, "s"))
    [second] = await take(again, 1)
    assert (see(second.payload).body, see(second.payload).delivery_count) == (b"1", 1)


@pytest.mark.spec("R3.3")
@SESSION_PLACES
async def test_what_was_said_of_a_lost_session_is_answered_before_its_link_is_detached(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1", b"2")
    link = await client.attach(asking(queue, "s"))
    first, second = await take(link, 2)
    served.clock.advance(LOCK_SECONDS)

    async with stalled(*served.broker.stores):
        link.settle(first, Accepted())
        # Answered, so what was said before has been read.
        await client.sender("orders", handle=7)
        for connection in served.listener.connections:
            connection.tick(served.clock.now())
        # Said while the broker is about to detach.
        link.settle(second, Accepted())
        await client.sender("orders", handle=8)
        assert client.unheard(Detach) == []

    condition, _ = await ended(link)
    assert condition == "com.microsoft:session-lock-lost"
    answers = [each.state for each in client.outcomes_heard() if not each.role]
    assert [type(each) for each in answers] == [Rejected, Rejected]


@SESSION_PLACES
async def test_messages_of_a_session_are_received_and_deleted(served: Served, queue: str) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1", b"2")

    link = await client.attach(asking(queue, "s", settled=True))
    deliveries = await take(link, 2)

    assert bodies(deliveries) == [b"1", b"2"]
    assert all(each.settled for each in deliveries)
    assert await served.count(queue) == 0


@SESSION_PLACES
async def test_strays_released_come_again_in_order_and_uncounted(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1", b"2", b"3")
    link = await client.attach(asking(queue, "s"))
    [first, second, third] = await take(link, 3)

    link.settle(second, Released(), last=third, settled=True)
    link.settle(first, Accepted())
    await link.confirmed(first)

    again = await take(link, 2)
    assert bodies(again) == [b"2", b"3"]
    assert [see(each.payload).delivery_count for each in again] == [0, 0]


@pytest.mark.spec("R2.1")
@pytest.mark.parametrize("queue", ["sessions", "session-parts"])
async def test_only_what_lacks_a_session_is_refused(served: Served, queue: str) -> None:
    client = await served.client()
    sender = await client.sender(queue)
    sender.send(message(b"1", session_id="s"), 0)
    sender.send(message(b"2"), 1)
    sender.send(batch(message(b"3", session_id="s"), message(b"4")), 2, message_format=BATCH_FORMAT)
    sender.send(message(b"5", session_id="s"), 3)

    outcomes = [await client.outcome(0, number, receiver=True) for number in range(4)]

    assert (outcomes[0], outcomes[3]) == (Accepted(), Accepted())
    for outcome in outcomes[1:3]:
        assert isinstance(outcome, Rejected)
        assert outcome.error is not None
        assert outcome.error.condition == "amqp:not-allowed"
        assert "The SessionId was not set on a message" in str(outcome.error.description)
    assert await served.count(queue) == 2


@SESSION_PLACES
async def test_dead_letters_of_a_session_are_received_without_one(
    served: Served, queue: str
) -> None:
    client = await served.client()
    await post(client, queue, "s", b"1")
    link = await client.attach(asking(queue, "s"))
    [delivery] = await take(link, 1)
    link.settle(delivery, Rejected(None))
    await link.confirmed(delivery)

    dead_letters = await client.receiver(f"{queue}/$DeadLetterQueue", handle=4)

    [dead] = await take(dead_letters, 1)
    assert see(dead.payload).properties[10] == "s"
    refused_link = await client.attach(asking(f"{queue}/$DeadLetterQueue", "s", handle=5))
    assert (await refusal(refused_link))[0] == "amqp:not-allowed"


@pytest.mark.parametrize(
    ("filters", "condition"),
    [
        ({SESSION_FILTER: Int(7)}, "com.microsoft:argument-error"),
        ({SESSION_FILTER: "x" * 129}, "com.microsoft:argument-out-of-range"),
        (
            {Symbol("com.microsoft:non-exclusive-session-filter"): None},
            "amqp:not-implemented",
        ),
        ({}, "amqp:not-allowed"),
    ],
)
async def test_a_wish_that_cannot_be_fulfilled_is_refused_at_once(
    served: Served, filters: dict[object, object], condition: str
) -> None:
    client = await served.client()
    source = Source(address="sessions", filter=filters)

    link = await client.attach(receiving("sessions", source=source))

    assert (await refusal(link))[0] == condition
