"""Stores as an operator sees them: how they are, and what it is like without one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bendybus.doors.arrivals import Arrivals
from bendybus.model.errors import ServerBusy, StoreNotFound
from bendybus.model.store_status import StoreStatus
from bendybus.store.port import Store

_OPERATOR: Final = "taken offline by an operator"


class StoreDrills:
    """Lets an operator see the stores, take one away and bring it back; at all workers, if several.

    A worker that starts afterwards has all stores online.
    """

    def __init__(self, stores: Sequence[Store], workers: Arrivals | None = None) -> None:
        self._stores = stores
        self._workers = workers
        if workers is not None:
            workers.answer("offline", _done(self._take_offline_here))
            workers.answer("online", _done(self._bring_online_here))

    def stores(self) -> list[StoreStatus]:
        """Say how every store is."""
        return [store.status() for store in self._stores]

    async def take_offline(self, number: int) -> None:
        """Stop serving from a store."""
        await self._take_offline_here(number)
        await self._tell_workers(f"offline {number}")

    async def bring_online(self, number: int) -> None:
        """Serve from a store again."""
        await self._bring_online_here(number)
        await self._tell_workers(f"online {number}")

    async def _take_offline_here(self, number: int) -> None:
        await self._store(number).take_offline(_OPERATOR)

    async def _bring_online_here(self, number: int) -> None:
        await self._store(number).bring_online()

    async def _tell_workers(self, wish: str) -> None:
        if self._workers is None:
            return
        answers = await self._workers.ask(wish)
        silent = [number for number, answer in answers.items() if answer is None]
        if silent:
            raise ServerBusy(f"The workers {silent} have not done it; ask again.")

    def _store(self, number: int) -> Store:
        if not 0 <= number < len(self._stores):
            raise StoreNotFound(
                f"There is no store {number}; they are numbered 0 to {len(self._stores) - 1}."
            )
        return self._stores[number]


def _done(act: Callable[[int], Awaitable[None]]) -> Callable[[str], Awaitable[bytes]]:
    """Make an answer of an act: that it is done."""

    async def answer(number: str) -> bytes:
        await act(int(number))
        return b"done"

    return answer
