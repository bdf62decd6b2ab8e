"""What receivers say about messages, what the broker answers, and what becomes of them."""

import pytest

from bendybus.amqp.outcomes import Accepted, AmqpError, Modified, Rejected, Released
from bendybus.amqp.performatives import Disposition
from bendybus.amqp.values import Symbol
from bendybus.model.ids import SubQueue
from bendybus.testing.wire_client import Delivery, WireClient, WireLink
from tests.protocol.messaging.places import PLACES, sent_to
from tests.protocol.messaging.sample_messages import Seen, message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served

_DEAD_LETTER = Symbol("com.microsoft:dead-letter")


async def _holding(
    client: WireClient, queue: str, count: int = 1
) -> tuple[WireLink, list[Delivery]]:
    """Send messages and receive them all on one link."""
    sender = await client.sender(sent_to(queue), handle=90)
    for number in range(count):
        await sender.sent(message(b"%d" % number, partition_key="k"), number)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=count)
    return receiver, [await receiver.receive() for _ in range(count)]


async def _next(receiver: WireLink) -> Seen:
    receiver.flow(link_credit=1)
    return see((await receiver.receive()).payload)


def _dead_letter(**info: object) -> Rejected:
    properties: dict[object, object] = {Symbol(key): value for key, value in info.items()}
    return Rejected(AmqpError(_DEAD_LETTER, None, properties))


@pytest.mark.spec("R4")
@PLACES
@pytest.mark.parametrize(
    ("state", "answer"),
    [
        pytest.param(Accepted(), Accepted(), id="complete"),
        pytest.param(Modified(True, False, None), Modified(None, False, None), id="abandon"),
        pytest.param(Modified(None, None, None), Modified(None, False, None), id="abandon, .NET"),
        pytest.param(_dead_letter(DeadLetterReason="r"), Rejected(None), id="dead-letter"),
        pytest.param(Rejected(None), Rejected(None), id="dead-letter without reason"),
        pytest.param(Released(), Released(), id="release"),
    ],
)
async def test_a_settlement_is_confirmed_with_the_same_outcome_and_no_details(
    served: Served, queue: str, state: object, answer: object
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)

    receiver.settle(delivery, state)

    assert await receiver.confirmed(delivery) == answer


@pytest.mark.spec("R4")
@PLACES
async def test_a_completed_message_is_gone(served: Served, queue: str) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)

    receiver.settle(delivery, Accepted())
    await receiver.confirmed(delivery)

    assert await served.count(queue) == 0


@pytest.mark.spec("R4")
@PLACES
async def test_an_abandoned_message_comes_again_at_its_place_and_is_counted(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [first, _] = await _holding(client, queue, 2)

    receiver.settle(first, Modified(True, False, None))
    again = await _next(receiver)

    assert again.sequence == see(first.payload).sequence
    assert again.delivery_count == 1


@pytest.mark.spec("R4")
@PLACES
@pytest.mark.parametrize("settled", [True, False])
async def test_a_released_message_comes_again_uncounted(
    served: Served, queue: str, settled: bool
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)

    receiver.settle(delivery, Released(), settled=settled)
    again = await _next(receiver)

    assert again.sequence == see(delivery.payload).sequence
    assert again.delivery_count == 0


@pytest.mark.spec("R4")
@PLACES
async def test_after_its_last_delivery_a_message_moves_to_the_dead_letters(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)
    for _ in range(2):
        receiver.settle(delivery, Modified(True, False, None))
        receiver.flow(link_credit=1)
        delivery = await receiver.receive()

    receiver.settle(delivery, Modified(True, False, None))
    await receiver.confirmed(delivery)
    dead = await _next(await client.receiver(f"{queue}/$DeadLetterQueue", handle=2))

    assert await served.count(queue) == 0
    assert dead.application_properties == {
        "DeadLetterReason": "MaxDeliveryCountExceeded",
        "DeadLetterErrorDescription": "Message could not be consumed after 3 delivery attempts.",
    }
    assert dead.annotations["x-opt-deadletter-source"] == queue
    assert dead.delivery_count == 3
    assert dead.body == b"0"


@pytest.mark.spec("R4")
@PLACES
async def test_a_dead_letter_carries_reason_description_and_changes(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)

    receiver.settle(
        delivery,
        _dead_letter(DeadLetterReason="bad", DeadLetterErrorDescription="very", attempt="7"),
    )
    await receiver.confirmed(delivery)
    dead = await _next(await client.receiver(f"{queue}/$DeadLetterQueue", handle=2))

    assert dead.application_properties == {
        "DeadLetterReason": "bad",
        "DeadLetterErrorDescription": "very",
        "attempt": "7",
    }
    assert dead.annotations["x-opt-enqueue-sequence-number"] == see(delivery.payload).sequence
    assert dead.properties[0] == "an-id"


@pytest.mark.spec("R4")
async def test_the_text_of_the_error_is_the_description_when_there_is_no_other(
    served: Served,
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, "orders")

    receiver.settle(delivery, Rejected(AmqpError(_DEAD_LETTER, "as text", None)))
    await receiver.confirmed(delivery)
    dead = await _next(await client.receiver("orders/$DeadLetterQueue", handle=2))

    assert dead.application_properties == {"DeadLetterErrorDescription": "as text"}


@pytest.mark.spec("R4")
@PLACES
async def test_abandoning_can_change_properties_and_later_changes_win(
    served: Served, queue: str
) -> None:
    client = await served.client()
    sender = await client.sender(sent_to(queue))
    await sender.sent(message(properties={"kept": 1, "changed": 1}), 0)
    receiver = await client.receiver(queue)
    for value in ("first", "second"):
        receiver.flow(link_credit=1)
        delivery = await receiver.receive()
        changes: dict[object, object] = {Symbol("changed"): value, Symbol(value): True}
        receiver.settle(delivery, Modified(None, None, changes))
        assert isinstance(await receiver.confirmed(delivery), Modified)

    seen = await _next(receiver)

    assert seen.application_properties == {
        "kept": 1,
        "changed": "second",
        "first": True,
        "second": True,
    }
    assert seen.delivery_count == 2


@pytest.mark.spec("R4")
async def test_a_message_in_the_dead_letters_can_be_abandoned_for_ever_but_not_moved(
    served: Served,
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, "orders")
    receiver.settle(delivery, Rejected(None))
    dead_letters = await client.receiver("orders/$DeadLetterQueue", handle=2)
    for _ in range(5):
        dead_letters.flow(link_credit=1)
        dead = await dead_letters.receive()
        dead_letters.settle(dead, Modified(None, None, None))
        await dead_letters.confirmed(dead)
    dead_letters.flow(link_credit=1)
    dead = await dead_letters.receive()

    dead_letters.settle(dead, Rejected(None))
    answer = await dead_letters.confirmed(dead)

    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert answer.error.condition == "amqp:not-allowed"
    assert await served.count("orders", SubQueue.DEAD_LETTER) == 1


@pytest.mark.spec("R4")
@PLACES
async def test_deferring_is_confirmed_in_kind_and_sets_the_message_aside(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)

    receiver.settle(delivery, Modified(True, True, None))
    answer = await receiver.confirmed(delivery)

    assert answer == Modified(None, True, None)
    assert await served.count(queue) == 1


@pytest.mark.amqp("2.6.12")
@PLACES
async def test_a_settled_disposition_is_applied_in_silence(served: Served, queue: str) -> None:
    client = await served.client()
    receiver, [first, second] = await _holding(client, queue, 2)

    receiver.settle(first, Accepted(), settled=True)
    receiver.settle(second, Accepted())
    await receiver.confirmed(second)

    answers = [each for each in client.outcomes_heard() if not each.role]
    assert [(each.first, each.last) for each in answers] == [(second.delivery_id,) * 2]
    assert await served.count(queue) == 0


@pytest.mark.amqp("2.7.6")
@PLACES
async def test_a_range_is_settled_as_a_whole_and_unknown_ids_in_it_are_passed_over(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, deliveries = await _holding(client, queue, 4)
    receiver.settle(deliveries[1], Accepted())
    await receiver.confirmed(deliveries[1])

    client.say(
        Disposition(
            role=True,
            first=deliveries[0].delivery_id,
            last=deliveries[-1].delivery_id + 100,
            settled=False,
            state=Accepted(),
        )
    )

    for delivery in deliveries:
        assert await receiver.confirmed(delivery) == Accepted()
    assert await served.count(queue) == 0


@pytest.mark.spec("R4")
@PLACES
@pytest.mark.parametrize(
    "state", [Accepted(), Modified(None, None, None), Rejected(None), Released()]
)
async def test_settling_after_the_lock_has_ended_fails_by_name(
    served: Served, queue: str, state: object
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)
    served.clock.advance(LOCK_SECONDS + 1)

    receiver.settle(delivery, state)
    answer = await receiver.confirmed(delivery)

    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert answer.error.condition == "com.microsoft:message-lock-lost"
    assert "The lock supplied is invalid." in str(answer.error.description)
    assert await served.count(queue) == 1


@pytest.mark.spec("R3.3")
@PLACES
async def test_when_a_lock_ends_the_message_comes_again_counted(served: Served, queue: str) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, queue)
    receiver.flow(link_credit=1)

    served.clock.advance(LOCK_SECONDS + 1)
    await served.broker.sweep.sweep_all()
    again = see((await receiver.receive()).payload)

    assert again.sequence == see(delivery.payload).sequence
    assert again.delivery_count == 1
    assert again.token != see(delivery.payload).token


@pytest.mark.spec("R4")
@PLACES
async def test_one_lost_lock_does_not_harm_the_others_of_its_range(
    served: Served, queue: str
) -> None:
    client = await served.client()
    receiver, [first, second, third] = await _holding(client, queue, 3)
    other = await served.client()
    management = await other.sender(f"{queue}/$management", handle=5)
    assert management.answer.target is not None
    receiver.settle(second, Released())
    await receiver.confirmed(second)
    # The same delivery named again, in a range with two that are held.
    receiver.settle(first, Accepted(), last=third)

    assert await receiver.confirmed(first) == Accepted()
    assert await receiver.confirmed(third) == Accepted()
    assert await served.count(queue) == 1


@pytest.mark.spec("R4")
@PLACES
async def test_a_message_whose_time_to_live_has_ended_is_not_delivered(
    served: Served, queue: str
) -> None:
    client = await served.client()
    sender = await client.sender(sent_to(queue))
    await sender.sent(message(time_to_live_ms=1000, partition_key="k"), 0)
    await sender.sent(message(b"lasting", partition_key="k"), 1)

    served.clock.advance(2)
    seen = await _next(await client.receiver(queue))
    await served.broker.sweep.sweep_all()

    assert seen.body == b"lasting"
    assert await served.count(queue) == 1


@pytest.mark.spec("R2.5")
async def test_settling_while_the_store_is_away_fails_retryably_and_loses_nothing(
    served: Served,
) -> None:
    client = await served.client()
    receiver, [delivery] = await _holding(client, "orders")
    store = served.broker.stores[0]
    await store.take_offline("drill")

    receiver.settle(delivery, Accepted())
    answer = await receiver.confirmed(delivery)
    await store.bring_online()

    assert isinstance(answer, Rejected)
    assert answer.error is not None
    assert answer.error.condition == "com.microsoft:server-busy"
    assert "store 0" in str(answer.error.description)
    assert await served.count("orders") == 1
