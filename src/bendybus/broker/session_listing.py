"""sessions: which there are, page by page."""

from typing import Final

from bendybus.broker.served_queue import ServedSubQueue
from bendybus.broker.sessions import check_sessions
from bendybus.model.ids import Instant
from bendybus.store.port import SessionCursor

# How many ids one page has at most, and how many sessions a store looks at in one call.
LISTED_MAX: Final = 250


class SessionListing:
    """Lists the sessions of a sub-queue, fragment by fragment, for one client.

    Clients count how many they have seen. Whoever goes on where the last page ended is served from
    there; only others are counted from the start.
    """

    def __init__(self, sub_queue: ServedSubQueue) -> None:
        self._sub_queue = sub_queue
        self._changed_since: Instant | None = None
        self._rewind(None)

    def _rewind(self, changed_since: Instant | None) -> None:
        self._changed_since = changed_since
        self._seen = 0
        self._fragment = 0
        self._after: SessionCursor | None = None

    async def page(self, changed_since: Instant | None, skip: int, count_max: int) -> list[str]:
        """Return ids behind the first `skip`, at most so many; see `MessageStore.sessions`.

        Fragments whose store is offline are passed over.
        """
        check_sessions(self._sub_queue)
        if skip == 0 or skip != self._seen or changed_since != self._changed_since:
            self._rewind(changed_since)
        while self._seen < skip and not self._is_at_end:
            await self._next(min(skip - self._seen, LISTED_MAX))
        found: list[str] = []
        count = min(count_max, LISTED_MAX)
        while len(found) < count and not self._is_at_end:
            found += await self._next(count - len(found))
        return found

    @property
    def _is_at_end(self) -> bool:
        return self._fragment == len(self._sub_queue.sources)

    async def _next(self, count_max: int) -> list[str]:
        """Look at some sessions of one fragment, and move on."""
        source = self._sub_queue.sources[self._fragment]
        ids: list[str] = []
        following = None
        if source.store.is_online:
            ids, following = await source.store.sessions(
                source.number,
                changed_since=self._changed_since,
                after=self._after,
                count_max=count_max,
            )
        self._after = following
        if following is None:
            self._fragment += 1
        self._seen += len(ids)
        return ids
