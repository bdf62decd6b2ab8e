"""joined receives: what many callers ask of one queue at the same time is asked together.

A caller of HTTP wants one message. One by one they would be as many acquires, each of another
fragment; so whoever comes while others are being served goes with the next (decisions/0006).
"""

import asyncio

from bendybus.broker.clock import Clock
from bendybus.broker.receive import ReceiveMode, Receiver
from bendybus.broker.served_queue import ServedSubQueue
from bendybus.model.message import StoredMessage

Wish = asyncio.Future[StoredMessage | None]


class JoinedReceives:
    """The wishes of all callers, by queue. A queue that nobody asks has no entry here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wishes: dict[ServedSubQueue, list[Wish]] = {}
        self._serving: set[asyncio.Task[None]] = set()

    def ask(self, sub_queue: ServedSubQueue) -> Wish:
        """Ask for a message; the future ends with one under lock, or None if none is free."""
        wish: Wish = asyncio.get_running_loop().create_future()
        wishes = self._wishes.get(sub_queue)
        if wishes is not None:
            wishes.append(wish)
            return wish
        wishes = self._wishes[sub_queue] = [wish]
        task = asyncio.get_running_loop().create_task(self._serve(sub_queue, wishes))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return wish

    async def _serve(self, sub_queue: ServedSubQueue, wishes: list[Wish]) -> None:
        """Fulfil wishes until there are none, and give back what was read ahead for more."""
        receiver = Receiver(sub_queue, ReceiveMode.PEEK_LOCK, self._clock)
        try:
            while wishes:
                # Who joins from here on was not asked for, and is not told that there is nothing.
                asked = len(wishes)
                messages: list[StoredMessage | None] = [*await receiver.receive(asked)]
                for message in messages or [None] * asked:
                    wishes.pop(0).set_result(message)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it
            for wish in wishes:
                wish.set_exception(error)
        finally:
            del self._wishes[sub_queue]
            await receiver.close()
