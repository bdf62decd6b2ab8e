"""REST: complete, unlock or renew the message that a lock token names.

The token is the place of the message and a number that cannot be guessed (decisions/0005), so the
id beside it in the path, which the service lets be a message id or a sequence number, decides
nothing.
"""

import json
import uuid
from datetime import UTC, datetime
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.receive import check_has_messages
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.settle import renew, settle
from bendybus.content.outgoing_message import lock_of_token
from bendybus.http.exchange import Answer
from bendybus.http.rest_properties import http_date
from bendybus.model.outcome import Abandon, Complete, Outcome

_OUTCOMES: Final[dict[str, Outcome]] = {"DELETE": Complete(), "PUT": Abandon()}
_DONE: Final = Answer(200)


async def settle_locked(
    sub_queue: ServedSubQueue, method: str, token: uuid.UUID, clock: Clock
) -> Answer:
    """Do what the method says with a locked message; durable when the client hears of it."""
    check_has_messages(sub_queue.queue)
    sub_queue.queue.note_use()
    lock = lock_of_token(token)
    outcome = _OUTCOMES.get(method)
    if outcome is None:
        locked_until = await renew(sub_queue, [lock], clock)
        moment = http_date(datetime.fromtimestamp(locked_until / 1000, UTC))
        return Answer(200, [("BrokerProperties", json.dumps({"LockedUntilUtc": moment}))])
    failures = await settle(sub_queue, [lock], outcome, clock)
    for failure in failures.values():
        raise failure
    return _DONE
