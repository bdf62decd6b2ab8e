"""What the files of a broker hold that does not run."""

import re

from bendybus.broker.browse import browse
from bendybus.broker.clock import SystemClock
from bendybus.model.ids import SubQueue
from bendybus.model.message import StoredMessage
from bendybus.testing.broker_process import BrokerProcess
from bendybus.testing.history_checker import Left
from bendybus.testing.local_broker import local_broker


async def everything_in(broker: BrokerProcess, queue: str) -> list[Left]:
    """Return every message of a queue and of its dead-letter queue."""
    found: list[Left] = []
    async with local_broker(broker.folder / "data", [], SystemClock()) as local:
        for place in (SubQueue.MAIN, SubQueue.DEAD_LETTER):
            following = 0
            sub_queue = local.queue(queue).sub_queues[place]
            while some := await browse(sub_queue, following, 250):
                found += map(_left, some)
                following = some[-1].sequence + 1
    return found


def _left(message: StoredMessage) -> Left:
    name = re.search(rb"<([\w-]+)>", message.content)
    assert name is not None
    return Left(name[1].decode(), message.enqueued_sequence or message.sequence)
