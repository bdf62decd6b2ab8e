"""Counts of queues, for all who ask at the same time at once.

A partitioned entity lies in every store, and each question to a store is a hand-over to its thread
and back. So what is asked while the stores are counting is gathered, and is the next question: one
to each store, for however many entities.
"""

import asyncio
from collections.abc import Mapping, Sequence

from bendybus.model.errors import StoreFailed, StoreUnavailable
from bendybus.model.ids import QueueNumber
from bendybus.store.port import Store, Tally

# By store; None if it is away.
Tallies = Mapping[int, Mapping[QueueNumber, Tally] | None]


class Tallying:
    """Asks the stores."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._stores = stores
        self._wanted: dict[int, set[QueueNumber]] = {}
        self._next: asyncio.Future[Tallies] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def tallies(self, wanted: Mapping[int, Sequence[QueueNumber]]) -> Tallies:
        """Count these queues of these stores, and no earlier than now.

        A store that is away, or fails meanwhile, has None. There may be others among the answers.
        """
        for store, queues in wanted.items():
            self._wanted.setdefault(store, set()).update(queues)
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        answered = self._next
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_all(), name="tallying")
        # Whoever gives up must not take the answer from the others.
        return await asyncio.shield(answered)

    async def _ask_all(self) -> None:
        try:
            while (answered := self._next) is not None:
                wanted, self._wanted, self._next = self._wanted, {}, None
                try:
                    found = await asyncio.gather(
                        *(self._ask(store, queues) for store, queues in wanted.items())
                    )
                    answered.set_result(dict(zip(wanted, found, strict=True)))
                except Exception as error:  # noqa: BLE001 - it is theirs who asked
                    answered.set_exception(error)
        finally:
            self._asking = None

    async def _ask(
        self, store: int, queues: set[QueueNumber]
    ) -> Mapping[QueueNumber, Tally] | None:
        if not self._stores[store].is_online:
            return None
        try:
            return await self._stores[store].tallies(sorted(queues))
        except (StoreUnavailable, StoreFailed):
            return None
