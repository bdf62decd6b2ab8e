"""What a reader keeps for itself, as clients see it who do not know of readers."""

import pytest

from bendybus.amqp.outcomes import Accepted
from bendybus.amqp.values import Int, Long
from bendybus.broker.open_reader import open_reader
from bendybus.broker.reserve import ReserveWish, reserve
from tests.protocol.messaging.requesting import requests_to
from tests.protocol.messaging.sample_messages import message, see
from tests.protocol.messaging.serving import Served

QUEUES = pytest.mark.parametrize("queue", ["orders", "parts"])
ACTIVE = 0


@pytest.mark.spec("R9.1")
@QUEUES
async def test_what_is_reserved_is_peeked_as_active_and_not_received(
    served: Served, queue: str
) -> None:
    client = await served.client()
    sender = await client.sender(queue)
    requests = await requests_to(client, f"{queue}/$management")
    assert await sender.sent(message(b"reserved"), 0) == Accepted()
    main = served.broker.queue(queue).main
    opened = await open_reader(main, "capture", None, served.clock)
    made = await reserve(main, ReserveWish(reader="capture", token=opened.token), served.clock)
    assert made.messages == 1
    assert await sender.sent(message(b"free"), 1) == Accepted()

    shown = []
    for start in (0, made.messages):
        body = {"from-sequence-number": Long(start), "message-count": Int(100)}
        response = await requests.ask("com.microsoft:peek-message", body)
        shown += [see(each["message"]) for each in response.body["messages"]]
    states = {each.body: each.annotations["x-opt-message-state"] for each in shown}
    assert states[b"reserved"] == ACTIVE

    receiver = await client.receiver(queue, handle=50)
    receiver.flow(link_credit=2)
    assert see((await receiver.receive()).payload).body == b"free"
