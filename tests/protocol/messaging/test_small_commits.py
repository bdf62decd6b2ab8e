"""Messages that come one by one, faster than commits end (decisions/0028)."""

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.performatives import Disposition
from bendybus.server import incoming_link
from bendybus.testing.local_broker import StartedStore
from bendybus.testing.wire_client import WireLink
from tests.protocol.messaging.sample_messages import message
from tests.protocol.messaging.serving import Served, stalled


def first_to_take(served: Served) -> StartedStore:
    """Return the store that has the first fragment of the queue; the second is in the other."""
    [store] = [
        each for each in served.broker.stores if each is served.queue("parts").main.sources[0].store
    ]
    return store


async def come(sender: WireLink, delivery_id: int) -> None:
    """Send a message, and return when the broker has read it."""
    sender.send(message(), delivery_id)
    sender.flow(echo=True)
    await sender.flowed()


async def outcomes(sender: WireLink, ids: range) -> list[object]:
    return [await sender.client.outcome(sender.channel, each, receiver=True) for each in ids]


def has_answer(sender: WireLink, delivery_id: int) -> bool:
    heard = sender.client.unheard(Disposition)
    return any(each.first <= delivery_id <= (each.last or each.first) for each in heard)


@pytest.mark.spec("R2.4")
async def test_few_that_come_during_a_commit_share_the_next(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_link, "PATIENCE_SECONDS", 3600)
    sender = await (await served.client()).sender("parts")

    async with stalled(*served.broker.stores):
        for number in range(10):
            await come(sender, number)

    assert await outcomes(sender, range(10)) == [Accepted()] * 10
    assert sorted(await served.counts_by_fragment("parts"))[-3:] == [0, 1, 9]


@pytest.mark.spec("R2.4")
async def test_many_that_come_during_a_commit_have_one_beside_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_link, "PATIENCE_SECONDS", 3600)
    many = incoming_link.SECOND_COMMIT_DELIVERIES
    sender = await (await served.client()).sender("parts")

    async with stalled(first_to_take(served)):
        await come(sender, 0)
        for number in range(1, many + 1):
            await come(sender, number)
        assert await outcomes(sender, range(1, many + 1)) == [Accepted()] * many
        assert not has_answer(sender, 0), "they waited for the other"


@pytest.mark.spec("R1.2")
@pytest.mark.spec("R2.4")
async def test_few_that_come_during_a_commit_that_hangs_go_elsewhere(served: Served) -> None:
    sender = await (await served.client()).sender("parts")

    async with stalled(first_to_take(served)):
        await come(sender, 0)
        await come(sender, 1)
        assert await outcomes(sender, range(1, 2)) == [Accepted()]
        assert not has_answer(sender, 0), "it waited for the other"
    assert await outcomes(sender, range(1)) == [Accepted()]
