"""REST: receive the next message, under lock or for good.

Nothing stays cached for a client that may never come again (R3.4): requests that come together are
served together, and what is left over then is given back.
"""

import asyncio
import math
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from bendybus.broker.clock import Clock
from bendybus.broker.joined_receive import JoinedReceives
from bendybus.broker.receive import ReceiveMode, check_open_for_receive, give_back, removed
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.waiting import Waiting
from bendybus.http.exchange import Answer, Request
from bendybus.http.rest_message import message_answer
from bendybus.model.errors import ArgumentInvalid

TIMEOUT_SECONDS: Final = 60.0
# Longer than this nobody between client and broker keeps a silent connection.
TIMEOUT_SECONDS_MAX: Final = 240.0
_NOTHING: Final = Answer(204)


class RestReceive:
    """Receives for callers of HTTP."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._joined = JoinedReceives(clock)

    async def receive(
        self, sub_queue: ServedSubQueue, request: Request, mode: ReceiveMode, url: str
    ) -> Answer:
        """Answer with the next message, waiting for one as long as the request says.

        A client that hangs up meanwhile takes none with it: what was locked for it is free again.
        """
        deadline = asyncio.get_running_loop().time() + timeout_of(request.head.query)
        # Whoever is woken looks first whether it may still receive.
        wake = partial(sub_queue.waiting.wake, 1)
        sub_queue.receives.begin()
        sub_queue.queue.note_link(wake)
        try:
            return await self._next(sub_queue, request, mode, url, deadline)
        finally:
            sub_queue.queue.note_link_gone(wake)
            sub_queue.receives.end()

    async def _next(
        self,
        sub_queue: ServedSubQueue,
        request: Request,
        mode: ReceiveMode,
        url: str,
        deadline: float,
    ) -> Answer:
        loop = asyncio.get_running_loop()
        is_locked = mode is ReceiveMode.PEEK_LOCK
        gone = request.client.hang_up()
        while True:
            check_open_for_receive(sub_queue)
            message = await self._joined.ask(sub_queue)
            if message is None:
                # Whoever deleted it meanwhile found nobody waiting whom to wake.
                check_open_for_receive(sub_queue)
                if not await _is_worth_asking(sub_queue.waiting, gone, deadline - loop.time()):
                    return _NOTHING
                continue
            if gone.done():
                await give_back(sub_queue, [message.lock], self._clock)
                return _NOTHING
            # Written before it is removed: what cannot be written must not be lost.
            answer = message_answer(message, is_locked=is_locked, url=url)
            if is_locked or await removed(sub_queue, [message], self._clock):
                return answer


async def _is_worth_asking(waiting: Waiting, gone: "asyncio.Future[None]", seconds: float) -> bool:
    """Wait until there may be a message. False: the time is over, or the client is gone."""
    if seconds <= 0 or gone.done():
        return False
    hint = waiting.join()
    try:
        await asyncio.wait({hint, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return hint.done() and not gone.done()
    finally:
        # A hint that was followed is used up; one that was not is passed on.
        if gone.done() or not hint.done():
            waiting.leave(hint)


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
