"""Management requests of our own that go through a queue, part by part.

`bendybus:queue-extent` says how much there is. A request that does something is for a stretch of
one fragment, and its answer says where the next begins; see `broker/look.py`.
"""

from typing import Any, Final
from uuid import uuid4

from bendybus.amqp.values import AmqpArray, Int, Long, Timestamp
from bendybus.broker.look import LOOKED_AT_MAX, Stretch, extent_of
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.errors import ArgumentInvalid, ArgumentOutOfRange
from bendybus.model.ids import Instant
from bendybus.model.message import MessageState
from bendybus.model.selection import Selection, condition_of
from bendybus.server.request_body import Response, number, sequences, succeeded, text

_AWAY: Final = -1
_NUMBER_MAX: Final = 2**63 - 1


async def queue_extent(sub_queue: ServedSubQueue, body: dict[str, Any]) -> Response:
    """Say how many messages there are, and of each fragment the last number; -1 if it is away."""
    del body
    extent = await extent_of(sub_queue)
    ends = [_AWAY if last is None else last for last in extent.last_sequences]
    return succeeded(), {
        "message-count": Long(extent.messages),
        "last-sequence-numbers": AmqpArray(Long, tuple(map(Long, ends))),
    }


def part_done(
    done: int, looked_at: int, locked: int, next_sequence: int | None
) -> dict[str, object]:
    """Return the body of an answer that says what was done to a stretch."""
    return {
        "message-count": Int(done),
        "looked-at": Int(looked_at),
        "locked": Int(locked),
        "next-sequence-number": None if next_sequence is None else Long(next_sequence),
    }


def stretch(body: dict[str, Any]) -> Stretch:
    """Return the part of a fragment that a request is for."""
    count = number(body, "message-count", LOOKED_AT_MAX)
    if not 1 <= count <= LOOKED_AT_MAX:
        raise ArgumentOutOfRange(f"message-count must be between 1 and {LOOKED_AT_MAX}.")
    first = number(body, "from-sequence-number", 0)
    last = number(body, "until-sequence-number", -1)
    if not 0 <= first <= last <= _NUMBER_MAX:
        raise ArgumentOutOfRange(
            "until-sequence-number must be given, and not be below from-sequence-number."
        )
    return Stretch(first, last, count)


def selection(body: dict[str, Any], state: MessageState = MessageState.ACTIVE) -> Selection:
    """Return which messages a request means."""
    condition = text(body, "filter")
    return Selection(
        state,
        None if condition is None else condition_of(condition, uuid4),
        text(body, "dead-letter-reason"),
        _instant(body, "enqueued-since"),
        _instant(body, "enqueued-until"),
        _named(body),
    )


def _named(body: dict[str, Any]) -> frozenset[int] | None:
    if body.get("sequence-numbers") is None:
        return None
    numbers = sequences(body)
    if len(numbers) > LOOKED_AT_MAX:
        raise ArgumentOutOfRange(f"At most {LOOKED_AT_MAX} sequence-numbers fit in one request.")
    return frozenset(numbers)


def flag(body: dict[str, Any], name: str) -> bool:
    """Return whether something is asked for; not given means no."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise ArgumentInvalid(f"{name} must be true or false.")
    return value


def _instant(body: dict[str, Any], name: str) -> Instant | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, Timestamp):
        raise ArgumentInvalid(f"{name} must be a timestamp.")
    return Instant(int(value))
