"""Topics and subscriptions frame by frame: what a link to each may do, and what comes out."""

import pytest

from bendybus.amqp.outcomes import Accepted, Modified, Rejected
from bendybus.amqp.performatives import Attach
from bendybus.amqp.values import Int, Long, Symbol, Timestamp
from bendybus.model.ids import SubQueue
from bendybus.testing.clock import NOON
from bendybus.testing.wire_client import WireClient, receiving, sending
from tests.protocol.messaging.requesting import put_token, requests_to, token_for
from tests.protocol.messaging.sample_messages import BATCH_FORMAT, batch, message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served

TOPICS = pytest.mark.parametrize("topic", ["news", "feed"])


async def _publish(client: WireClient, topic: str, *bodies: bytes) -> None:
    sender = await client.sender(topic, handle=90)
    for number, body in enumerate(bodies):
        assert await sender.sent(message(body, message_id=body.decode()), number) == Accepted()


async def _refused(client: WireClient, attach: Attach) -> tuple[str, str]:
    """Attach and return the condition and the text of the refusal."""
    link = await client.attach(attach)
    error = (await link.detached()).error
    assert error is not None
    return str(error.condition), str(error.description)


@pytest.mark.spec("R1.1")
@pytest.mark.spec("R8.1")
@TOPICS
async def test_what_is_sent_to_a_topic_comes_out_of_its_subscription(
    served: Served, topic: str
) -> None:
    client = await served.client()
    await _publish(client, topic, b"a")
    receiver = await client.receiver(f"{topic}/Subscriptions/all")
    receiver.flow(link_credit=1)
    delivery = await receiver.receive()
    seen = see(delivery.payload)

    assert seen.body == b"a"
    number = seen.annotations["x-opt-enqueue-sequence-number"]
    assert type(number) is Long
    assert number == seen.sequence
    assert seen.annotations["x-opt-locked-until"] == NOON + LOCK_SECONDS * 1000
    receiver.settle(delivery, Accepted())
    assert await receiver.confirmed(delivery) == Accepted()
    assert await served.count(f"{topic}/subscriptions/ALL") == 0


@pytest.mark.spec("R1.1")
@TOPICS
async def test_the_number_at_the_topic_is_told_beside_the_one_in_the_subscription(
    served: Served, topic: str
) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{topic}/Subscriptions/ruled/$management")
    sender = await client.sender(topic)
    before = message(b"before", partition_key="k")
    await sender.sent(before, 0)
    rule = {"rule-name": "r", "rule-description": {"sql-filter": {"expression": "1=1"}}}
    assert (await requests.ask("com.microsoft:add-rule", rule)).status == 200
    await sender.sent(message(b"after", partition_key="k"), 1)

    receiver = await client.receiver(f"{topic}/Subscriptions/ruled")
    receiver.flow(link_credit=10)
    seen = see((await receiver.receive()).payload)

    assert seen.body == b"after"
    assert seen.sequence & 0xFFFFFFFF == 1
    assert seen.annotations["x-opt-enqueue-sequence-number"] == seen.sequence + 1


@pytest.mark.spec("R4")
@TOPICS
async def test_a_batch_is_published_as_a_whole(served: Served, topic: str) -> None:
    client = await served.client()
    sender = await client.sender(topic)
    payload = batch(*(message(b"%d" % number) for number in range(5)))

    assert await sender.sent(payload, 0, message_format=BATCH_FORMAT) == Accepted()
    assert await served.count(f"{topic}/Subscriptions/all") == 5


@pytest.mark.spec("R4")
@TOPICS
async def test_each_subscription_has_its_own_locks_counts_and_dead_letters(
    served: Served, topic: str
) -> None:
    client = await served.client()
    await _publish(client, topic, b"a")
    path = f"{topic}/Subscriptions/all"
    receiver = await client.receiver(path)
    for _ in range(3):
        receiver.flow(link_credit=1)
        delivery = await receiver.receive()
        receiver.settle(delivery, Modified(True, False, None))
        await receiver.confirmed(delivery)

    assert await served.count(path) == 0
    assert await served.count(path, SubQueue.DEAD_LETTER) == 1
    dead = await client.receiver(f"{path}/$DeadLetterQueue", handle=7)
    dead.flow(link_credit=1)
    seen = see((await dead.receive()).payload)
    assert seen.application_properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    assert seen.annotations["x-opt-deadletter-source"] == path


@pytest.mark.spec("R3.5")
@TOPICS
async def test_a_subscription_can_be_peeked(served: Served, topic: str) -> None:
    client = await served.client()
    await _publish(client, topic, b"a", b"b")
    requests = await requests_to(client, f"{topic}/Subscriptions/all/$management")
    found: list[bytes] = []
    start = 0
    while True:
        response = await requests.ask(
            "com.microsoft:peek-message",
            {"from-sequence-number": Long(start), "message-count": Int(10)},
        )
        if response.status == 204:
            break
        seen = [see(each["message"]) for each in response.body["messages"]]
        found += [each.body for each in seen]
        start = seen[-1].sequence + 1

    assert sorted(found) == [b"a", b"b"]


@pytest.mark.spec("R4")
@TOPICS
async def test_what_is_scheduled_at_a_topic_waits_there(served: Served, topic: str) -> None:
    client = await served.client()
    requests = await requests_to(client, f"{topic}/$management")
    annotations: dict[object, object] = {
        Symbol("x-opt-scheduled-enqueue-time"): Timestamp(NOON + 60_000)
    }
    entry = {"message-id": "m", "message": message(b"later", annotations=annotations)}
    response = await requests.ask("com.microsoft:schedule-message", {"messages": [entry, entry]})
    assert response.status == 200
    first, second = response.body["sequence-numbers"].items
    assert await served.count(topic) == 2
    response = await requests.ask(
        "com.microsoft:cancel-scheduled-message", {"sequence-numbers": [Long(first)]}
    )
    assert response.status == 200
    assert await served.count(f"{topic}/Subscriptions/all") == 0
    served.clock.advance(60)
    await served.broker.sweep.sweep_all()

    assert await served.count(topic) == 0
    assert await served.count(f"{topic}/Subscriptions/all") == 1
    assert second != first


@pytest.mark.spec("R1.1")
@TOPICS
@pytest.mark.parametrize("suffix", ["", "/$DeadLetterQueue"])
async def test_nothing_is_received_from_a_topic_itself(
    served: Served, topic: str, suffix: str
) -> None:
    condition, text = await _refused(await served.client(), receiving(f"{topic}{suffix}"))

    assert condition == "amqp:not-allowed"
    assert "subscriptions" in text


@pytest.mark.spec("R1.1")
@TOPICS
@pytest.mark.parametrize("suffix", ["", "/$DeadLetterQueue"])
async def test_nothing_is_sent_to_a_subscription(served: Served, topic: str, suffix: str) -> None:
    client = await served.client()
    condition, _ = await _refused(client, sending(f"{topic}/Subscriptions/all{suffix}"))

    assert condition == "amqp:not-allowed"


@pytest.mark.spec("R8.1")
@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("news/Subscriptions/none", "sbemulatorns:Topic:news|none"),
        ("orders/Subscriptions/all", "sbemulatorns:Topic:orders|all"),
        ("nowhere/Subscriptions/all", "sb://sbemulatorns/nowhere"),
    ],
)
@pytest.mark.parametrize("suffix", ["", "/$DeadLetterQueue", "/$management"])
async def test_a_subscription_that_is_not_there_is_named_at_the_attach(
    served: Served, address: str, name: str, suffix: str
) -> None:
    condition, text = await _refused(await served.client(), receiving(address + suffix))

    assert condition == "amqp:not-found"
    assert f"The messaging entity '{name}' could not be found." in text


@pytest.mark.spec("R8.1")
async def test_a_token_for_a_missing_topic_is_refused_but_not_for_a_missing_subscription(
    served: Served,
) -> None:
    client = await served.stranger()
    await client.log_in("ANONYMOUS", b"")
    await client.begin()
    requests = await requests_to(client, "$cbs")

    statuses = [
        (await put_token(requests, audience, token_for(audience)))["status-code"]
        for audience in (
            "sb://localhost/news/Subscriptions/all",
            "sb://localhost/news/Subscriptions/none",
            "sb://localhost/nowhere/Subscriptions/all",
        )
    ]
    assert statuses == [202, 202, 404]


@pytest.mark.spec("R4")
async def test_a_topic_that_is_closed_for_sending_refuses_senders_and_lets_receivers_in(
    served: Served,
) -> None:
    client = await served.client()
    condition, _ = await _refused(client, sending("no-news"))
    assert condition == "com.microsoft:entity-disabled"
    receiver = await client.receiver("no-news/Subscriptions/all")
    assert receiver.answer.source is not None


@pytest.mark.spec("R4")
async def test_a_message_that_no_subscription_takes_is_accepted(served: Served) -> None:
    client = await served.client()
    await _publish(client, "news", b"a")
    assert await served.count("news/Subscriptions/ruled") == 0


@pytest.mark.spec("R1.6")
async def test_a_full_topic_refuses_with_its_quota(served: Served) -> None:
    served.queue("news").fragment_bytes_max = 100
    client = await served.client()
    sender = await client.sender("news")
    outcome = await sender.sent(message(b"x" * 100), 0)

    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    assert outcome.error.condition == "amqp:resource-limit-exceeded"


@pytest.mark.spec("R3.6")
async def test_a_conventional_topic_keeps_the_order_for_every_subscription(
    served: Served,
) -> None:
    client = await served.client()
    requests = await requests_to(client, "news/Subscriptions/ruled/$management")
    described = {"sql-filter": {"expression": "sys.MessageId LIKE '%'"}}
    await requests.ask("com.microsoft:add-rule", {"rule-name": "r", "rule-description": described})
    sender = await client.sender("news")
    for number in range(200):
        sender.send(message(b"%d" % number, message_id=f"{number}"), number)
    for name, handle in (("all", 5), ("ruled", 6)):
        receiver = await client.receiver(f"news/Subscriptions/{name}", handle=handle)
        receiver.flow(link_credit=200)
        found = [see((await receiver.receive()).payload).body for _ in range(200)]
        assert found == [b"%d" % number for number in range(200)]
