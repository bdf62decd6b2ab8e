"""joined sends: what many callers send to one entity at the same time is stored together.

A caller of HTTP sends one message and waits. One by one they would be as many commits, in as many
fragments (decisions/0006); so what comes while others are being stored goes with the next.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from bendybus.broker.clock import Clock
from bendybus.broker.send import group_by_fragment, send
from bendybus.broker.served_queue import ServedQueue
from bendybus.model.errors import BusError
from bendybus.model.ids import FragmentIndex
from bendybus.model.message import Message

# Stores that may be busy for one entity at once.
STORING_MAX: Final = 2

_Parcel = tuple[Message, "asyncio.Future[None]"]


class JoinedSends:
    """The sends of all callers, by entity. An entity that nobody sends to has no entry here."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lanes: dict[ServedQueue, _Lane] = {}

    def send(self, queue: ServedQueue, message: Message) -> "asyncio.Future[None]":
        """Store a message; it is durable when the future ends, or refused with its error."""
        lane = self._lanes.get(queue)
        if lane is None:
            lane = self._lanes[queue] = _Lane()
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append((message, stored))
        if lane.storing < STORING_MAX and not lane.is_scheduled:
            # At the end of this turn of the loop, so that all that came in it goes together.
            lane.is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin, queue, lane)
        return stored

    def _begin(self, queue: ServedQueue, lane: "_Lane") -> None:
        lane.is_scheduled = False
        parcels, lane.waiting = lane.waiting, []
        lane.storing += 1
        lane.task = asyncio.get_running_loop().create_task(self._store(queue, lane, parcels))

    async def _store(self, queue: ServedQueue, lane: "_Lane", parcels: list[_Parcel]) -> None:
        messages = [message for message, _ in parcels]
        groups = group_by_fragment(queue, messages)
        if len(groups) == 1:
            [fragment] = groups
            await self._store_group(queue, fragment, parcels)
        else:
            await asyncio.gather(
                *(
                    self._store_group(queue, fragment, [parcels[at] for at in places])
                    for fragment, places in groups.items()
                )
            )
        lane.storing -= 1
        if lane.waiting:
            self._begin(queue, lane)
        elif not lane.storing:
            del self._lanes[queue]

    async def _store_group(
        self, queue: ServedQueue, fragment: FragmentIndex | None, parcels: Iterable[_Parcel]
    ) -> None:
        parcels = list(parcels)
        try:
            await send(queue, [message for message, _ in parcels], fragment, self._clock)
        except BusError as error:
            for _, stored in parcels:
                if not stored.done():
                    stored.set_exception(error)
        else:
            for _, stored in parcels:
                if not stored.done():
                    stored.set_result(None)


class _Lane:
    """What waits to be stored in one entity, and how much is on its way."""

    __slots__ = ("is_scheduled", "storing", "task", "waiting")

    def __init__(self) -> None:
        self.waiting: list[_Parcel] = []
        self.storing = 0
        self.is_scheduled = False
        self.task: asyncio.Task[None] | None = None
