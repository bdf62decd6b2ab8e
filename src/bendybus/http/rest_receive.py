"""REST: receive the next message, under lock or for good.

Each request has a receiver of its own, which is closed before the answer: nothing stays cached
for a client that may never come again (R3.4).
"""

import asyncio
import math
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from bendybus.broker.clock import Clock
from bendybus.broker.receive import (
    ReceiveMode,
    Receiver,
    check_open_for_receive,
    give_back,
    removed,
)
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.http.exchange import Answer, Request
from bendybus.http.rest_message import message_answer
from bendybus.model.errors import ArgumentInvalid

TIMEOUT_SECONDS: Final = 60.0
# Longer than this nobody between client and broker keeps a silent connection.
TIMEOUT_SECONDS_MAX: Final = 240.0
_NOTHING: Final = Answer(204)


async def receive_next(
    sub_queue: ServedSubQueue, request: Request, mode: ReceiveMode, clock: Clock, url: str
) -> Answer:
    """Answer with the next message, waiting for one as long as the request says.

    A client that hangs up meanwhile takes none with it: what was locked for it is free again.
    """
    seconds = timeout_of(request.head.query)
    queue = sub_queue.queue
    # Whoever is woken looks first whether it may still receive.
    wake = partial(sub_queue.waiting.wake, 1)
    queue.note_link(wake)
    receiver = Receiver(sub_queue, ReceiveMode.PEEK_LOCK, clock)
    try:
        return await _next(receiver, request, mode, clock, url, seconds)
    finally:
        queue.note_link_gone(wake)
        await receiver.close()


async def _next(
    receiver: Receiver, request: Request, mode: ReceiveMode, clock: Clock, url: str, seconds: float
) -> Answer:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    gone = request.client.hang_up()
    sub_queue = receiver.sub_queue
    while True:
        check_open_for_receive(sub_queue)
        messages = await receiver.receive(1)
        if gone.done():
            await give_back(sub_queue, [each.lock for each in messages], clock)
            return _NOTHING
        if messages:
            # Written before it is removed: what cannot be written must not be lost.
            answer = message_answer(messages[0], is_locked=mode is ReceiveMode.PEEK_LOCK, url=url)
            if mode is ReceiveMode.PEEK_LOCK or await removed(sub_queue, messages, clock):
                return answer
        elif not await _is_worth_asking(receiver, gone, deadline - loop.time()):
            return _NOTHING


async def _is_worth_asking(
    receiver: Receiver, gone: "asyncio.Future[None]", seconds: float
) -> bool:
    """Wait until there may be a message. False: the time is over, or the client is gone."""
    if seconds <= 0:
        return False
    hint = receiver.waiting.join()
    try:
        await asyncio.wait({hint, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return hint.done() and not gone.done()
    finally:
        # A hint that was followed is used up; one that was not is passed on.
        if gone.done() or not hint.done():
            receiver.waiting.leave(hint)


def timeout_of(query: str) -> float:
    """Return how long a request waits. Raises `ArgumentInvalid`."""
    given = parse_qs(query, keep_blank_values=True).get("timeout")
    if given is None:
        return TIMEOUT_SECONDS
    try:
        [text] = given
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ArgumentInvalid("timeout must be a number of seconds.", argument="timeout")
    return min(seconds, TIMEOUT_SECONDS_MAX)
