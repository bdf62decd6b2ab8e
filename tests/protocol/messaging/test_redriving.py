"""bendybus:redrive-messages and what goes with it, request by request."""

import pytest

from bendybus.amqp.outcomes import Accepted, Rejected
from bendybus.amqp.values import AmqpArray, Int, Long, Timestamp
from bendybus.model.ids import SubQueue, fragment_of
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient
from tests.protocol.messaging.requesting import Answered, Requests, requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served

pytestmark = [pytest.mark.spec("R8.2"), pytest.mark.spec("R7.4")]
REDRIVE = "bendybus:redrive-messages"
DELETE = "bendybus:delete-selected-messages"
EXTENT = "bendybus:queue-extent"
DEAD = SubQueue.DEAD_LETTER
# The queue to receive from, and what to send to so that it gets the message.
PLACES = pytest.mark.parametrize(
    ("place", "to"),
    [
        ("orders", "orders"),
        ("parts", "parts"),
        ("news/Subscriptions/all", "news"),
        ("feed/Subscriptions/all", "feed"),
    ],
)


async def bury(client: WireClient, place: str, to: str, *payloads: bytes) -> None:
    """Send messages, receive and reject them."""
    sender = await client.sender(to, handle=50)
    for number, payload in enumerate(payloads):
        assert await sender.sent(payload, number) == Accepted()
    receiver = await client.receiver(place, handle=51)
    receiver.flow(link_credit=len(payloads))
    for _ in payloads:
        delivery = await receiver.receive()
        receiver.settle(delivery, Rejected(None))
        await receiver.confirmed(delivery)


async def dead_letters(client: WireClient, place: str, handle: int = 10) -> Requests:
    return await requests_to(client, f"{place}/$DeadLetterQueue/$management", handle=handle)


async def go_through(requests: Requests, operation: str, **fields: object) -> list[Answered]:
    """Ask for every stretch of every fragment, as a client does; return the answers."""
    more = {name.replace("_", "-"): value for name, value in fields.items()}
    extent = await requests.ask(EXTENT, {})
    assert extent.status == 200
    answers: list[Answered] = []
    for last in extent.body["last-sequence-numbers"].items:
        at: int | None = fragment_of(last) << 48
        while at is not None and at <= last:
            stretch = {"from-sequence-number": Long(at), "until-sequence-number": Long(last)}
            answer = await requests.ask(operation, stretch | more)
            assert answer.status == 200, answer.properties
            answers.append(answer)
            at = answer.body["next-sequence-number"]
    return answers


def moved(answers: list[Answered]) -> int:
    return sum(each.body["message-count"] for each in answers)


@PLACES
async def test_dead_letters_come_again_as_they_were_sent(
    served: Served, place: str, to: str
) -> None:
    client = await served.client()
    sent = [message(b"%d" % n, properties={"n": Int(n)}) for n in range(5)]
    await bury(client, place, to, *sent)

    answers = await go_through(await dead_letters(client, place), REDRIVE)

    assert moved(answers) == 5
    assert await served.count(place, DEAD) == 0
    receiver = await client.receiver(place, handle=60)
    receiver.flow(link_credit=5)
    again = [see((await receiver.receive()).payload) for _ in sent]
    assert sorted(each.body for each in again) == [b"0", b"1", b"2", b"3", b"4"]
    assert all(each.application_properties.keys() == {"n"} for each in again)
    assert all("x-opt-deadletter-source" not in each.annotations for each in again)


@PLACES
async def test_the_extent_says_how_many_there_are_and_where_each_fragment_ends(
    served: Served, place: str, to: str
) -> None:
    client = await served.client()
    await bury(client, place, to, message(), message())
    extent = await (await dead_letters(client, place)).ask(EXTENT, {})
    count = len(served.queue(place).main.sources)
    assert extent.body["message-count"] == 2
    ends = extent.body["last-sequence-numbers"]
    assert isinstance(ends, AmqpArray)
    assert [int(str(each)) >> 48 for each in ends.items] == list(range(count))


async def test_a_fragment_that_is_away_is_told(served: Served) -> None:
    client = await served.client()
    await served.broker.stores[1].take_offline("a test")
    requests = await dead_letters(client, "parts")
    extent = await requests.ask(EXTENT, {})
    away = [at for at, end in enumerate(extent.body["last-sequence-numbers"].items) if end == -1]
    assert len(away) == 8
    first = Long(away[0] << 48)
    stretch = {"from-sequence-number": first, "until-sequence-number": Long(first + 9)}
    refused = await requests.ask(REDRIVE, stretch)
    assert (refused.status, refused.properties["errorCondition"]) == (
        503,
        "com.microsoft:server-busy",
    )


async def test_what_is_asked_for_is_what_happens(served: Served) -> None:
    client = await served.client()
    sent = [message(b"%d" % n, properties={"n": Int(n)}) for n in range(6)]
    await bury(client, "orders", "orders", *sent)
    requests = await dead_letters(client, "orders")

    dry = await go_through(requests, REDRIVE, filter="n >= 3", dry_run=True)
    none = await go_through(requests, REDRIVE, dead_letter_reason="Other")
    early = await go_through(requests, REDRIVE, enqueued_until=Timestamp(NOON - 1))
    late = await go_through(requests, REDRIVE, enqueued_since=Timestamp(NOON + 1))
    done = await go_through(
        requests, REDRIVE, filter="n >= 3", edit="SET n = 7", message_count=Int(2)
    )

    assert [moved(each) for each in (dry, none, early, late, done)] == [3, 0, 0, 0, 3]
    assert [answer.body["message-count"] for answer in done] == [2, 1]
    receiver = await client.receiver("orders", handle=60)
    receiver.flow(link_credit=3)
    again = [see((await receiver.receive()).payload) for _ in range(3)]
    assert [each.body for each in again] == [b"3", b"4", b"5"]
    assert [each.application_properties for each in again] == [{"n": 7}] * 3


async def test_messages_are_deleted_by_what_they_say(served: Served) -> None:
    client = await served.client()
    sent = [message(b"%d" % n, properties={"n": Int(n)}) for n in range(6)]
    await bury(client, "orders", "orders", *sent)
    requests = await dead_letters(client, "orders")
    active = Int(0)

    dry = await go_through(requests, DELETE, message_state=active, filter="n < 4", dry_run=True)
    assert (moved(dry), await served.count("orders", DEAD)) == (4, 6)
    done = await go_through(requests, DELETE, message_state=active, filter="n < 4")
    assert (moved(done), await served.count("orders", DEAD)) == (4, 2)


FIRST = {"sequence-numbers": AmqpArray(Long, (Long(1),))}
MANY = AmqpArray(Long, tuple(map(Long, range(1001))))
GOOD = {"from-sequence-number": Long(0), "until-sequence-number": Long(9)}


@pytest.mark.parametrize(
    ("wrong", "condition"),
    [
        ({"until-sequence-number": Long(-1)}, "com.microsoft:argument-out-of-range"),
        ({"until-sequence-number": Long(1 << 48)}, "com.microsoft:argument-out-of-range"),
        ({"from-sequence-number": Long(10)}, "com.microsoft:argument-out-of-range"),
        ({"from-sequence-number": Long(-1)}, "com.microsoft:argument-out-of-range"),
        ({"from-sequence-number": "0"}, "com.microsoft:argument-error"),
        ({"message-count": Int(0)}, "com.microsoft:argument-out-of-range"),
        ({"message-count": Int(1001)}, "com.microsoft:argument-out-of-range"),
        ({"filter": "n = "}, "com.microsoft:argument-error"),
        ({"filter": Int(1)}, "com.microsoft:argument-error"),
        ({"edit": "REMOVE sys.MessageId"}, "com.microsoft:argument-error"),
        ({"dry-run": Int(1)}, "com.microsoft:argument-error"),
        ({"enqueued-since": Long(1)}, "com.microsoft:argument-error"),
        ({"to": "nowhere"}, "amqp:not-found"),
        ({"to": "no-sends"}, "com.microsoft:entity-disabled"),
        ({"to": "news/Subscriptions/all"}, "amqp:not-allowed"),
        ({"to": "spare", "to-source": True}, "com.microsoft:argument-error"),
        ({"sequence-numbers": "1"}, "com.microsoft:argument-error"),
        ({"sequence-numbers": MANY}, "com.microsoft:argument-out-of-range"),
        ({"edits": [{}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": []}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [7]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{"colour": 1}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{"system": {"Label": 1}}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{"system": {"Size": "1"}}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{"properties": {"a": [1]}}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{"removed": "a"}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{"body": "a"}]}, "com.microsoft:argument-error"),
        (FIRST | {"edits": [{}], "edit": "SET a = 1"}, "com.microsoft:argument-error"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_nothing_moves(
    served: Served, wrong: dict[str, object], condition: str
) -> None:
    client = await served.client()
    await bury(client, "orders", "orders", message())
    response = await (await dead_letters(client, "orders")).ask(REDRIVE, GOOD | wrong)
    assert response.status in (400, 404)
    assert response.properties["errorCondition"] == condition
    assert await served.count("orders", DEAD) == 1


async def test_a_queue_itself_is_not_redriven(served: Served) -> None:
    requests = await requests_to(await served.client(), "orders/$management")
    response = await requests.ask(REDRIVE, GOOD)
    assert response.properties["errorCondition"] == "amqp:not-allowed"


@pytest.mark.parametrize("operation", [REDRIVE, DELETE])
@pytest.mark.parametrize("queue", ["no-receives", "off"])
async def test_an_entity_closed_for_receiving_lets_nothing_go(
    served: Served, queue: str, operation: str
) -> None:
    requests = await dead_letters(await served.client(), queue)
    response = await requests.ask(operation, GOOD | {"message-state": Int(0)})
    assert response.properties["errorCondition"] == "com.microsoft:entity-disabled"
