"""A store as an operator sees it: how it is, what it has done, in service or not."""

from typing import Protocol

from bendybus.model.store_status import StoreStatus
from bendybus.store.figures import StoreFigures


class StoreSwitch(Protocol):
    """Takes a store out of service and back."""

    def status(self) -> StoreStatus:
        """Say how the store is."""
        ...

    def figures(self) -> StoreFigures:
        """Say what it has done since the broker started, whether it is online or not."""
        ...

    async def take_offline(self, reason: str) -> None:
        """Stop serving; calls under way finish first."""
        ...

    async def bring_online(self) -> None:
        """Serve again. Raises `StoreUnavailable` if the database still fails."""
        ...
