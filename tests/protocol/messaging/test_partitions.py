"""Which fragment takes a message, and how receivers find it there (R2, R3)."""

from pathlib import Path

import pytest

from bendybus.amqp.outcomes import Accepted, Modified, Rejected, Released
from bendybus.amqp.performatives import Detach, Transfer
from bendybus.model.partitioning import fragment_for
from bendybus.server.fragment_turns import FEW_MESSAGES
from bendybus.testing.wire_client import WireClient, WireLink
from tests.protocol.messaging.places import PLACES, sent_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import LOCK_SECONDS, Served, serving

FRAGMENTS = 16


async def _rejection(link: WireLink, payload: bytes, delivery_id: int) -> tuple[str, str]:
    outcome = await link.sent(payload, delivery_id)
    assert isinstance(outcome, Rejected)
    assert outcome.error is not None
    return outcome.error.condition, str(outcome.error.description)


def _key_of_store(store: int, *, is_in: bool = True) -> str:
    """Find a key whose fragment of the queue 'parts' is, or is not, in a store of two."""
    # The queue is the second that was made, so that its first fragment is in the second store.
    keys = (f"key-{number}" for number in range(1000))
    return next(key for key in keys if ((fragment_for(key, 16) + 1) % 2 == store) is is_in)


async def _idle(link: WireLink) -> None:
    """Return when the link has nothing left to give, and insist that it gave nothing."""
    link.flow(link_credit=1, drain=True)
    await link.flowed(lambda flow: flow.drain)
    assert link.client.unheard(Transfer) == []


# Sending


@pytest.mark.spec("R2.4")
async def test_messages_without_a_key_go_round_all_fragments_evenly(served: Served) -> None:
    sender = await (await served.client()).sender("parts")

    for number in range(2 * FRAGMENTS):
        assert await sender.sent(message(message_id=f"id-{number}"), number) == Accepted()

    assert await served.counts_by_fragment("parts") == [2] * FRAGMENTS


@pytest.mark.spec("R2.1")
async def test_a_message_id_is_not_a_key(served: Served) -> None:
    sender = await (await served.client()).sender("parts")

    for number in range(FRAGMENTS):
        await sender.sent(message(message_id="always the same"), number)

    assert await served.counts_by_fragment("parts") == [1] * FRAGMENTS


@pytest.mark.spec("R2.1")
@pytest.mark.parametrize("fields", [{"session_id": "k"}, {"partition_key": "k"}], ids=str)
async def test_messages_of_one_key_go_to_one_fragment(
    served: Served, fields: dict[str, str]
) -> None:
    sender = await (await served.client()).sender("parts")

    for number in range(10):
        await sender.sent(
            message(session_id=fields.get("session_id"), partition_key=fields.get("partition_key")),
            number,
        )

    counts = await served.counts_by_fragment("parts")
    assert counts[fragment_for("k", FRAGMENTS)] == sum(counts) == 10


@pytest.mark.spec("R2.1")
@pytest.mark.spec("R2.3")
async def test_a_session_id_and_the_same_partition_key_lead_to_the_same_fragment(
    served: Served,
) -> None:
    sender = await (await served.client()).sender("parts")

    await sender.sent(message(session_id="k"), 0)
    await sender.sent(message(partition_key="k"), 1)
    await sender.sent(message(session_id="k", partition_key="k"), 2)

    assert sorted(await served.counts_by_fragment("parts")) == [0] * 15 + [3]


@pytest.mark.spec("R2.1")
@pytest.mark.parametrize("queue", ["parts", "once-parts"])
async def test_much_that_is_spread_over_the_fragments_is_answered_and_in_order_in_each(
    served: Served, queue: str
) -> None:
    client = await served.client()
    sender = await client.sender(queue)
    count = 3 * FEW_MESSAGES
    # By the id where that is the key, by the partition key otherwise; and every third twice.
    keys = [f"key-{number - number % 3 // 2}" for number in range(count)]
    for number, key in enumerate(keys):
        sender.send(
            message(b"%d" % number, message_id=key, partition_key=None if "once" in queue else key),
            number,
        )
    outcomes = [await client.outcome(0, number, receiver=True) for number in range(count)]
    kept = len(set(keys)) if "once" in queue else count
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=kept)
    seen = [see((await receiver.receive()).payload) for _ in range(kept)]

    assert outcomes == [Accepted()] * count
    assert await served.count(queue) == kept
    by_fragment: dict[int, list[tuple[int, int]]] = {}
    for each in seen:
        by_fragment.setdefault(each.sequence >> 48, []).append((each.sequence, int(each.body)))
    assert len(by_fragment) == FRAGMENTS
    for numbered in by_fragment.values():
        bodies = [body for _, body in sorted(numbered)]
        assert bodies == sorted(bodies)


@pytest.mark.spec("R2.2")
@pytest.mark.parametrize("queue", ["orders", "parts"])
async def test_a_session_id_that_is_not_the_partition_key_is_an_invalid_operation(
    served: Served, queue: str
) -> None:
    sender = await (await served.client()).sender(queue)

    condition, text = await _rejection(sender, message(session_id="a", partition_key="b"), 0)

    assert condition == "amqp:not-allowed"
    assert "'b'" in text
    assert "'a'" in text
    assert await served.count(queue) == 0


@pytest.mark.spec("R2.3")
async def test_a_key_leads_to_the_same_fragment_after_a_restart(
    tmp_path: Path,
) -> None:
    counts = []
    for _ in range(2):
        async with serving(tmp_path) as served:
            sender = await (await served.client()).sender("parts")
            for number, key in enumerate(("a", "b", "c", "ünïcode")):
                assert await sender.sent(message(partition_key=key), number) == Accepted()
            counts.append(await served.counts_by_fragment("parts"))

    assert sum(counts[1]) == 8
    assert counts[1] == [2 * each for each in counts[0]]


@pytest.mark.spec("R2.6")
async def test_the_fragment_is_in_the_top_bits_of_the_sequence_number(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("parts")
    keys = [f"key-{number}" for number in range(8)]
    for number, key in enumerate(keys):
        await sender.sent(message(message_id=key, partition_key=key), number)
    receiver = await client.receiver("parts")

    receiver.flow(link_credit=len(keys))
    seen = [see((await receiver.receive()).payload) for _ in keys]

    assert {each.properties[0]: each.sequence >> 48 for each in seen} == {
        key: fragment_for(key, FRAGMENTS) for key in keys
    }


@pytest.mark.spec("R2.6")
async def test_a_conventional_queue_counts_from_one_without_gaps(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    for number in range(3):
        await sender.sent(message(), number)
    await _rejection(sender, message(session_id="a", partition_key="b"), 3)
    await sender.sent(message(), 4)
    receiver = await client.receiver("orders")

    receiver.flow(link_credit=4)

    assert [see((await receiver.receive()).payload).sequence for _ in range(4)] == [1, 2, 3, 4]


# A store away


@pytest.mark.spec("R1.2")
@pytest.mark.spec("R2.5")
async def test_with_a_store_away_messages_without_a_key_go_to_the_others(served: Served) -> None:
    sender = await (await served.client()).sender("parts")
    await served.broker.stores[1].take_offline("drill")

    for number in range(FRAGMENTS):
        assert await sender.sent(message(), number) == Accepted()

    assert await served.count("parts") == FRAGMENTS


@pytest.mark.spec("R2.5")
async def test_with_its_store_away_a_key_is_refused_retryably_and_by_name(
    served: Served,
) -> None:
    sender = await (await served.client()).sender("parts")
    await served.broker.stores[1].take_offline("drill")
    key = _key_of_store(1)

    condition, text = await _rejection(sender, message(partition_key=key), 0)

    assert condition == "com.microsoft:server-busy"
    assert "Messaging store 1" in text
    assert f"fragment {fragment_for(key, FRAGMENTS)} of 'parts'" in text
    assert "drill" in text
    assert await sender.sent(message(partition_key=_key_of_store(0)), 1) == Accepted()


@pytest.mark.spec("R2.5")
async def test_a_store_that_comes_back_brings_its_messages_with_it(served: Served) -> None:
    client = await served.client()
    sender = await client.sender("parts")
    key = _key_of_store(1)
    await sender.sent(message(partition_key=key), 0)
    await served.broker.stores[1].take_offline("drill")
    await served.broker.sweep.sweep_all()
    receiver = await client.receiver("parts")
    await _idle(receiver)
    receiver.flow(delivery_count=1, link_credit=1)

    await served.broker.stores[1].bring_online()
    await served.broker.sweep.sweep_all()

    assert see((await receiver.receive()).payload).annotations["x-opt-partition-key"] == key


@pytest.mark.spec("R2.5")
async def test_with_every_store_away_a_send_is_refused_and_not_lost_silently(
    served: Served,
) -> None:
    sender = await (await served.client()).sender("parts")
    for store in served.broker.stores:
        await store.take_offline("drill")

    condition, _ = await _rejection(sender, message(), 0)

    assert condition == "com.microsoft:server-busy"


# Quota


@pytest.mark.spec("R1.6")
async def test_a_full_fragment_refuses_its_keys_and_others_take_what_has_none(
    served: Served,
) -> None:
    client = await served.client()
    sender = await client.sender("parts")
    served.queue("parts").fragment_bytes_max = 20_000
    body = b"x" * 15_000
    await sender.sent(message(body, partition_key="k"), 0)

    condition, text = await _rejection(sender, message(body, partition_key="k"), 1)
    keyless = [await sender.sent(message(body), number) for number in range(2, 17)]
    beyond, _ = await _rejection(sender, message(body), 17)

    assert condition == beyond == "amqp:resource-limit-exceeded"
    assert f"fragment {fragment_for('k', FRAGMENTS)}" in text
    assert keyless == [Accepted()] * 15
    assert await served.counts_by_fragment("parts") == [1] * FRAGMENTS


@pytest.mark.spec("R1.6")
async def test_a_full_queue_takes_messages_again_once_some_were_completed(
    served: Served,
) -> None:
    client = await served.client()
    sender = await client.sender("orders")
    served.queue("orders").fragment_bytes_max = 20_000
    body = b"x" * 15_000
    await sender.sent(message(body), 0)
    condition, _ = await _rejection(sender, message(body), 1)
    receiver = await client.receiver("orders", settled=True)

    receiver.flow(link_credit=1)
    await receiver.receive()

    assert condition == "amqp:resource-limit-exceeded"
    assert await sender.sent(message(body), 2) == Accepted()


# Receiving


@pytest.mark.spec("R3.1")
@pytest.mark.parametrize("key", [f"key-{number}" for number in range(0, 40, 8)])
async def test_one_message_in_one_of_sixteen_fragments_is_found_with_a_credit_of_one(
    served: Served, key: str
) -> None:
    client = await served.client()
    await (await client.sender("parts")).sent(message(partition_key=key), 0)
    receiver = await client.receiver("parts")

    receiver.flow(link_credit=1)

    assert see((await receiver.receive()).payload).annotations["x-opt-partition-key"] == key


@pytest.mark.spec("R3.4")
@PLACES
async def test_a_drain_never_comes_back_empty_while_a_message_is_free(
    served: Served, queue: str
) -> None:
    client = await served.client()
    sender = await client.sender(sent_to(queue))
    receiver = await client.receiver(queue)
    for number in range(20):
        await sender.sent(message(b"%d" % number), number)
        receiver.flow(delivery_count=number, link_credit=1, drain=True)
        assert see((await receiver.receive()).payload).body == b"%d" % number


@pytest.mark.spec("R3.1")
@PLACES
async def test_a_waiting_receiver_gets_a_message_without_any_time_passing(
    served: Served, queue: str
) -> None:
    client, other = await served.client(), await served.client()
    receiver = await client.receiver(queue)
    await _idle(receiver)
    receiver.flow(delivery_count=1, link_credit=1)

    await (await other.sender(sent_to(queue))).sent(message(b"at once"), 0)

    # Nothing sweeps here and the clock stands still, so only the send itself can have woken it.
    assert see((await receiver.receive()).payload).body == b"at once"


@pytest.mark.spec("R3.1")
@PLACES
@pytest.mark.parametrize(
    "state", [Released(), Modified(None, None, None)], ids=["release", "abandon"]
)
async def test_a_waiting_receiver_gets_what_another_gives_back(
    served: Served, queue: str, state: object
) -> None:
    holder, waiter = await served.client(), await served.client()
    await (await holder.sender(sent_to(queue))).sent(message(), 0)
    held = await holder.receiver(queue)
    held.flow(link_credit=1)
    delivery = await held.receive()
    waiting = await waiter.receiver(queue)
    await _idle(waiting)
    waiting.flow(delivery_count=1, link_credit=1)

    held.settle(delivery, state)

    assert see((await waiting.receive()).payload).sequence == see(delivery.payload).sequence


@pytest.mark.spec("R3.1")
@PLACES
async def test_two_receivers_share_and_no_message_goes_to_both(served: Served, queue: str) -> None:
    clients = [await served.client(), await served.client()]
    links = [await client.receiver(queue) for client in clients]
    for link in links:
        link.flow(link_credit=10)
    sender = await clients[0].sender(sent_to(queue), handle=50)
    for number in range(20):
        await sender.sent(message(message_id=f"id-{number}"), number)

    received = [see((await link.receive()).payload) for link in links for _ in range(10)]

    assert sorted(each.properties[0] for each in received) == sorted(
        f"id-{number}" for number in range(20)
    )


@pytest.mark.spec("R3.2")
@pytest.mark.parametrize("ending", ["hang up", "detach"])
@PLACES
async def test_what_a_client_was_not_handed_is_free_again_when_it_goes(
    served: Served, queue: str, ending: str
) -> None:
    """Its window closed after two of forty: the rest was locked for it but never sent."""
    client, other = await served.client(), await served.client()
    sender = await other.sender(sent_to(queue))
    count = 40
    for number in range(count):
        await sender.sent(message(), number)
    receiver = await client.receiver(queue)
    receiver.flow(link_credit=100, incoming_window=2)
    handed = [see((await receiver.receive()).payload).sequence for _ in range(2)]

    if ending == "hang up":
        client.hang_up()
    else:
        client.say(Detach(handle=receiver.handle, closed=True))
    again = await other.receiver(queue)
    again.flow(link_credit=100)
    seen = [see((await again.receive()).payload) for _ in range(count - 2)]

    assert {each.sequence for each in seen}.isdisjoint(handed)
    assert {each.delivery_count for each in seen} == {0}


@pytest.mark.spec("R3.2")
async def test_what_was_asked_of_other_fragments_is_given_back_uncounted(served: Served) -> None:
    client, other = await served.client(), await served.client()
    sender = await other.sender("parts")
    for number in range(FRAGMENTS):
        await sender.sent(message(), number)
    receiver = await client.receiver("parts")
    receiver.flow(link_credit=3)
    handed = {see((await receiver.receive()).payload).sequence for _ in range(3)}

    client.hang_up()
    again = await other.receiver("parts")
    again.flow(link_credit=100)
    seen = [see((await again.receive()).payload) for _ in range(FRAGMENTS - 3)]

    assert handed.isdisjoint(each.sequence for each in seen)
    assert {each.delivery_count for each in seen} == {0}


@pytest.mark.spec("R3.3")
@PLACES
async def test_when_all_is_locked_elsewhere_a_receiver_gets_nothing_until_the_locks_end(
    served: Served, queue: str
) -> None:
    client, other = await served.client(), await served.client()
    await (await client.sender(sent_to(queue))).sent(message(), 0)
    holder = await client.receiver(queue)
    holder.flow(link_credit=1)
    await holder.receive()
    waiting = await other.receiver(queue)
    await _idle(waiting)
    waiting.flow(delivery_count=1, link_credit=1)

    served.clock.advance(LOCK_SECONDS + 1)
    await served.broker.sweep.sweep_all()

    assert see((await waiting.receive()).payload).delivery_count == 1


async def _in_order(client: WireClient, queue: str, key: str | None) -> list[bytes]:
    sender = await client.sender(sent_to(queue))
    for number in range(30):
        sender.send(message(b"%02d" % number, partition_key=key), number)
    await client.outcome(0, 29, receiver=True)
    receiver = await client.receiver(queue)
    bodies: list[bytes] = []
    for credit in (1, 9, 20):
        receiver.flow(link_credit=credit)
        bodies += [see((await receiver.receive()).payload).body for _ in range(credit)]
    return bodies


@pytest.mark.spec("R3.6")
@pytest.mark.parametrize(("queue", "key"), [("orders", None), ("orders", "k"), ("parts", "k")])
async def test_first_in_is_first_out_on_a_conventional_queue_and_for_one_key(
    served: Served, queue: str, key: str | None
) -> None:
    bodies = await _in_order(await served.client(), queue, key)

    assert bodies == [b"%02d" % number for number in range(30)]
